// Compiled with the headers that cmake/Library.cmake names, for every test and for every source; has nothing
// of its own.
