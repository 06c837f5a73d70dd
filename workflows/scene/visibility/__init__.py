"""What can be seen of the ground on both dates: clouds, their shadows and haze are not judged."""
