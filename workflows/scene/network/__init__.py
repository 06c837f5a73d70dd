"""The part that runs the network: tiles in, maps out."""
