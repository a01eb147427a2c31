// Compiled with the headers that cmake/House.cmake names for every test; has nothing of its own.
