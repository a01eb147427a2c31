"""Modules with the names and signatures of other libraries: change the import, keep the program.

Unlike the rest of gpulens they give 0.0 for what is not known where the library does.
"""
