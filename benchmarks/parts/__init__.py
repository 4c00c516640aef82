"""One module for each part: ``run(context)`` measures and returns what is to be written."""
