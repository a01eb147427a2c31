# A libcuda without a GPU, in each style of entry point: tests/fake_cuda/<style>/libcuda.so.1 of the build tree.
include_guard()
add_executable(fake_cuda_loop tests/inject/fake_cuda/fake_cuda_loop_main.c)
target_link_libraries(fake_cuda_loop PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
add_custom_target(fake_cuda)
enable_language(ASM)
foreach(style push nop5 endbr sub movabs)
  string(TOUPPER ${style} macro)
  add_library(fake_cuda_${style} SHARED tests/inject/fake_cuda/fake_cuda.c tests/inject/fake_cuda/fake_cuda_entries.S)
  target_compile_options(fake_cuda_${style} PRIVATE -O2 -Wall -Wextra)
  target_compile_definitions(fake_cuda_${style} PRIVATE FAKE_CUDA_${macro})
  target_link_libraries(fake_cuda_${style} PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(fake_cuda_${style} PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1 NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fake_cuda/${style})
  target_link_options(fake_cuda_${style} PRIVATE -Wl,-soname,libcuda.so.1)
  add_dependencies(fake_cuda fake_cuda_${style} fake_cuda_loop)
endforeach()
add_dependencies(e2e_programs fake_cuda)
# A libcupti without a GPU, in three versions: tests/fake_cupti/<version>/libcupti.so.N.
foreach(version 12 130 135)
  string(SUBSTRING ${version} 0 2 major)
  add_library(fake_cupti_${version} SHARED tests/inject/fake_cupti/fake_cupti.c)
  target_compile_options(fake_cupti_${version} PRIVATE -O2 -Wall -Wextra)
  target_compile_definitions(fake_cupti_${version} PRIVATE FAKE_CUPTI_API=${version})
  set_target_properties(fake_cupti_${version} PROPERTIES OUTPUT_NAME cupti SUFFIX .so.${major} NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fake_cupti/${version})
  target_link_options(fake_cupti_${version} PRIVATE -Wl,-soname,libcupti.so.${major})
  target_link_libraries(fake_cupti_${version} PRIVATE fake_cuda_push Threads::Threads)
  add_dependencies(fake_cuda fake_cupti_${version})
endforeach()
# Prints a job page as it is.
add_executable(job_page_dump tests/inject/job_page_dump_main.cc)
target_link_libraries(job_page_dump PRIVATE gpulens_flags)
target_include_directories(job_page_dump PRIVATE src include)
add_dependencies(fake_cuda job_page_dump)
add_test(NAME e2e_cuda_injection COMMAND ${CMAKE_SOURCE_DIR}/tools/venv_python.sh -m unittest -v test_cuda_injection
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/inject)
set_tests_properties(e2e_cuda_injection PROPERTIES LABELS e2e TIMEOUT 300
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;GPULENS_BUILD=${CMAKE_BINARY_DIR}")
add_test(NAME e2e_cupti_layout COMMAND ${CMAKE_SOURCE_DIR}/tools/venv_python.sh -m unittest -v test_cupti_layout
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/inject)
set_tests_properties(e2e_cupti_layout PROPERTIES LABELS e2e TIMEOUT 120 SKIP_REGULAR_EXPRESSION "headers not here"
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
add_test(NAME e2e_profile COMMAND ${CMAKE_SOURCE_DIR}/tools/venv_python.sh -m unittest -v test_profile
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/inject)
set_tests_properties(e2e_profile PROPERTIES LABELS "e2e;sanitize" TIMEOUT 300
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;GPULENS_BUILD=${CMAKE_BINARY_DIR}")
# On a machine with a GPU.
add_test(NAME gpu_cuda COMMAND ${CMAKE_SOURCE_DIR}/tools/venv_python.sh test_real_cuda.py WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/gpu)
set_tests_properties(gpu_cuda PROPERTIES LABELS gpu TIMEOUT 300 RUN_SERIAL TRUE SKIP_REGULAR_EXPRESSION "SKIP ALL"
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;GPULENS_BIN=$<TARGET_FILE:gpulens>")
