# The table of hardware, compiled in: gpu_specs.tsv → rows of C++.
include_guard()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(specs_table ${GPULENS_ROOT}/src/sdk/training/gpu_specs.tsv)
set(specs_rows ${CMAKE_BINARY_DIR}/generated/sdk/training/gpu_specs.inc)
add_custom_command(OUTPUT ${specs_rows}
  COMMAND ${Python3_EXECUTABLE} -B ${GPULENS_ROOT}/tools/spec_table.py ${specs_table} ${specs_rows}
  DEPENDS ${GPULENS_ROOT}/tools/spec_table.py ${specs_table}
  COMMENT "Table of hardware" VERBATIM)
add_gpulens_library(sdk_training DIR src/sdk/training DEPS gpulens_instruments gpulens_sdk_job TEST_DEPS gpulens_catalog)
target_sources(gpulens_sdk_training PRIVATE ${specs_rows})
# Of the source and not of the library: the archive of the SDK compiles it, too.
set_source_files_properties(${GPULENS_ROOT}/src/sdk/training/efficiency.cc PROPERTIES
                            INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/generated)
add_custom_target(generated_specs DEPENDS ${specs_rows})
add_dependencies(generated generated_specs)
