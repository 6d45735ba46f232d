"""A plug-in package: one file and one entry point for a part of each kind."""
