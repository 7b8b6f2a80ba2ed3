// Placeholder translation unit is replaced by the module itself.
