"""One layer of all changes of an archive, in every format."""
