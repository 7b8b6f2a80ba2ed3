// Replaced by the module itself.
