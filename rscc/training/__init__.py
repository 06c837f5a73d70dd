"""From a config and a data set to a model folder with its card; needs the extra ``train``."""
