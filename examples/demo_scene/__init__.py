"""A generated suburb at two dates: what stands where (``layout``) and how it looks from above (``paint``)."""
