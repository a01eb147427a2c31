# Executables that tests use, beyond the library, tests, benches and fuzzers of this folder.
add_executable(exposition_dump tests/differential/exposition_dump_main.cc)
target_link_libraries(exposition_dump PRIVATE gpulens_flags gpulens_wire_exposition)
