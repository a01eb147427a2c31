# The package as pip builds it, in an environment of its own. One test whatever the preset: its label keeps it out of the
# sanitizers' runs.
include_guard()
include(python/src/compat/targets.cmake)
add_test(NAME python_package COMMAND ${CMAKE_SOURCE_DIR}/tools/venv_python.sh ${CMAKE_CURRENT_LIST_DIR}/in_venv.py
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
# Both build in build/<tag of the wheel>.
set_tests_properties(python_package PROPERTIES LABELS "python;tools" TIMEOUT 900 SKIP_RETURN_CODE 77 RESOURCE_LOCK wheel
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
if(TEST e2e_docs_snippets)  # runs the documentation's Python with the package that the other one installs
  set_tests_properties(e2e_docs_snippets PROPERTIES DEPENDS python_package)
endif()
foreach(extra torch otlp clients servers)
  add_test(NAME python_${extra} COMMAND ${CMAKE_SOURCE_DIR}/tools/venv_python.sh ${CMAKE_CURRENT_LIST_DIR}/in_venv.py --${extra}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(python_${extra} PROPERTIES LABELS "python;tools" TIMEOUT 300 SKIP_RETURN_CODE 77 DEPENDS python_package
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
# The same with every Python that is here: ./dev test --pythons.
add_test(NAME pythons_every COMMAND ${CMAKE_SOURCE_DIR}/tools/venv_python.sh ${CMAKE_CURRENT_LIST_DIR}/every_python.py
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(pythons_every PROPERTIES LABELS "pythons;tools" TIMEOUT 3600 SKIP_RETURN_CODE 77 RESOURCE_LOCK wheel
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
# The generated part of gpulens.compat.l9gpu is what its table and the program's catalogue give.
add_test(NAME python_l9gpu_fields COMMAND ${GPULENS_PYTHON} tools/l9gpu_fields.py --check $<TARGET_FILE:gpulens>
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(python_l9gpu_fields PROPERTIES LABELS "python;tools" TIMEOUT 60 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
