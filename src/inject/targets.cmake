# Libraries that jobs load. They need the C library alone, so that they load in old containers.
include_guard()
