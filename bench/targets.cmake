# Programs that measure gpulens and its peers; tools/bench.py runs them. Not tests, never shipped.
if(NOT GPULENS_BENCHES)
  return()
endif()

add_library(bench_pages STATIC bench/page_snapshot.cc)
target_link_libraries(bench_pages PUBLIC gpulens_flags gpulens_wire_exposition gpulens_names)
target_include_directories(bench_pages PUBLIC ${CMAKE_SOURCE_DIR})

add_executable(page_bench bench/page_bench.cc)
target_link_libraries(page_bench PRIVATE bench_pages benchmark::benchmark_main)
target_compile_definitions(page_bench PRIVATE GPULENS_SOURCE_DIR="${CMAKE_SOURCE_DIR}")

add_executable(http_load bench/http_load_main.cc)
target_link_libraries(http_load PRIVATE gpulens_flags gpulens_base)

add_executable(llm_upstream bench/llm_upstream_main.cc)
target_link_libraries(llm_upstream PRIVATE gpulens_flags gpulens_net_relay)

add_executable(llm_load bench/llm_load_main.cc)
target_link_libraries(llm_load PRIVATE gpulens_flags gpulens_net_relay)

add_executable(http_page bench/http_page_main.cc)
target_link_libraries(http_page PRIVATE bench_pages gpulens_sinks_prometheus gpulens_net_http)

# Preloaded into the agent, so it links nothing else of the project.
add_library(bench_allocations SHARED bench/count_allocations.cc)
target_compile_features(bench_allocations PRIVATE cxx_std_20)
target_compile_options(bench_allocations PRIVATE -O2 -Wall -Wextra -fno-builtin)
