# Moving in from other exporters: the tables of their names, compiled in: tables/*.tsv → rows of C++.
include_guard()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(migrate_rows ${CMAKE_BINARY_DIR}/generated/migrate/migrate_tables.inc)
file(GLOB migrate_tables CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/migrate/tables/*.tsv)
add_custom_command(OUTPUT ${migrate_rows}
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/migrate_tables.py ${CMAKE_SOURCE_DIR}/src/migrate/tables ${migrate_rows}
  DEPENDS ${CMAKE_SOURCE_DIR}/tools/migrate_tables.py ${migrate_tables}
  COMMENT "Tables of other exporters" VERBATIM)
add_gpulens_library(migrate DEPS gpulens_names gpulens_base_yaml)
target_sources(gpulens_migrate PRIVATE ${migrate_rows})
target_include_directories(gpulens_migrate PRIVATE ${CMAKE_BINARY_DIR}/generated)
add_custom_target(generated_migrate DEPENDS ${migrate_rows})
add_dependencies(generated generated_migrate)
