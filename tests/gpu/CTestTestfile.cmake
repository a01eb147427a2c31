# So that `ctest --test-dir …/share/gpulens/tests -L gpu` runs from the package, without a build tree.
add_test(gpu_real python3 test_real_gpu.py)
set_tests_properties(gpu_real PROPERTIES LABELS gpu TIMEOUT 300 SKIP_REGULAR_EXPRESSION "SKIP ALL"
  ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
add_test(gpu_cuda python3 test_real_cuda.py)
set_tests_properties(gpu_cuda PROPERTIES LABELS gpu TIMEOUT 300 SKIP_REGULAR_EXPRESSION "SKIP ALL"
  ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
