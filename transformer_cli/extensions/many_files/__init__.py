"""Many files translated at once, into a directory; also on a cluster."""
