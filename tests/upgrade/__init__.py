"""Files of every age are brought to the current shape, and lose nothing."""
