"""What an archive keeps: its folder, its ledger, and what a pair is known by."""
