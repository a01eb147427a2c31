"""Modules with the names and signatures of other libraries: change the import, keep the program.

Unlike the rest of gpulens they return 0.0 for unknown values where the original library does.
"""
