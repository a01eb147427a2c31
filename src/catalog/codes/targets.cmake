# The tables of codes, compiled in: *.tsv → rows of C++.
include_guard()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(codes_folder ${GPULENS_ROOT}/src/catalog/codes)
set(codes_rows ${CMAKE_BINARY_DIR}/generated/catalog/codes/code_tables.inc)
add_custom_command(OUTPUT ${codes_rows}
  COMMAND ${Python3_EXECUTABLE} -B ${GPULENS_ROOT}/tools/code_tables.py ${codes_folder} ${codes_rows}
  DEPENDS ${GPULENS_ROOT}/tools/code_tables.py ${codes_folder}/xid.tsv ${codes_folder}/sxid.tsv
          ${codes_folder}/ras.tsv ${codes_folder}/sources.tsv
  COMMENT "Tables of codes" VERBATIM)
add_gpulens_library(catalog_codes DIR src/catalog/codes DEPS gpulens_base)
target_sources(gpulens_catalog_codes PRIVATE ${codes_rows})
target_include_directories(gpulens_catalog_codes PRIVATE ${CMAKE_BINARY_DIR}/generated)
# For those who read the sources without building them.
add_custom_target(generated DEPENDS ${codes_rows})
