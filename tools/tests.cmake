# The tools' own tests, and the rules they hold the tree to. Included by the root CMakeLists.txt.
include_guard()
find_program(GPULENS_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(GPULENS_PYTHON python3 REQUIRED)
add_test(NAME tools_unit COMMAND ${GPULENS_PYTHON} -m unittest -v test_tools test_engine_tools test_checks
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tools)
add_test(NAME tools_layers COMMAND ${GPULENS_PYTHON} tools/layers.py WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME tools_dashboards COMMAND ${GPULENS_PYTHON} tools/dashboards/build.py --check WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME tools_tidy COMMAND ${GPULENS_PYTHON} tools/tidy.py WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(tools_unit tools_layers tools_dashboards tools_tidy PROPERTIES
  LABELS tools TIMEOUT 60 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
