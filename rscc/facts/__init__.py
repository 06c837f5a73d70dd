"""Facts of a change: heads on the trunk, rules that state what is sure, calibration."""
