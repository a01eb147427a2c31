# Formats of bytes: encode and decode together.
include_guard()
add_gpulens_library(wire_external_scaler DIR src/wire/external_scaler DEPS gpulens_wire)
add_gpulens_library(wire_exposition DIR src/wire/exposition DEPS gpulens_wire)
add_gpulens_library(wire DEPS gpulens_core PRIVATE_DEPS dep_deflate dep_zstd)
add_gpulens_library(wire_json DIR src/wire/json DEPS gpulens_wire_exposition)
add_gpulens_library(wire_otlp DIR src/wire/otlp TESTS_APART DEPS gpulens_wire_exposition TEST_DEPS gpulens_instruments)
add_gpulens_library(wire_remote_write DIR src/wire/remote_write TESTS_APART DEPS gpulens_wire_exposition gpulens_wire_otlp PRIVATE_DEPS dep_snappy)
add_gpulens_library(wire_split DIR src/wire/split DEPS gpulens_wire_otlp)
# Programs that tests/differential runs.
if(GPULENS_TESTS)
  add_executable(exposition_dump tests/differential/exposition_dump_main.cc)
  target_link_libraries(exposition_dump PRIVATE gpulens_flags gpulens_wire_exposition)
endif()
