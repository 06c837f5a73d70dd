"""What hides the ground on one date of a pair: cloud, its shadow and haze."""
