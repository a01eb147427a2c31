# Tests that cross floors: the real program among programs of others.
include_guard()
include(${CMAKE_CURRENT_LIST_DIR}/inject/cuda_targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/inject/nccl_targets.cmake)
set(e2e_python ${CMAKE_SOURCE_DIR}/tools/venv_python.sh)
foreach(name agent amd bad_pages capture check command_line commands gpu gpu_coverage gpu_pages gpu_parts events fault_matrix reader_faults hostile_names levels peers
             seed_rows seed_rows_cost seed_rows_engines seed_rows_nccl nccl collectives websocket config doctor untrusted_clients many_clients engines_command engine_monitors discovery otlp otlp_encodings otlp_grpc otlp_in probes proxy queue_command top upgrade_queue
             remote_write remote_write_in remote_write_compliance reloads routing forwarding two_sinks rollups migrate webhook sink_faults kubernetes slurm seed_rows_delivery collector run_energy
             victoria_metrics experiments experiments_export telemetry bench_serve compare completion docs_snippets demo first_number history keda trace mcp live sockets isolate rights
             cost_reconcile migrate_litellm proxy_clients proxy_security proxy_otlp proxy_cost seed_rows_proxy proxy_sandbox torch_job phases seed_rows_probes)
  add_test(NAME e2e_${name} COMMAND ${e2e_python} -m unittest -v test_${name}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
  set_tests_properties(e2e_${name} PROPERTIES LABELS e2e TIMEOUT 600 RESOURCE_LOCK e2e_${name}
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
# They attach probes, and measure times of a second.
set_tests_properties(e2e_probes PROPERTIES LABELS "e2e;bpf" RUN_SERIAL ON)
if(TARGET bpf_caller)
  add_dependencies(e2e_programs bpf_caller bpf_fake_push bpf_fake_sub)
endif()
# The surface of the program against tests/contract/expected.
add_test(NAME e2e_contract COMMAND ${e2e_python} ${CMAKE_SOURCE_DIR}/tests/contract/test_contract.py
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
set_tests_properties(e2e_contract PROPERTIES LABELS e2e TIMEOUT 300 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
# Tests that the sanitizers' builds run, too: those of processes, sockets, signals and bytes from outside. The others compare with
# foreign programs, check the text of commands, or repeat the same paths with other tables: the release build finds their errors.
foreach(name proxy proxy_cost proxy_otlp proxy_security cost_reconcile agent amd bad_pages events fault_matrix gpu gpu_parts hostile_names websocket discovery otlp otlp_grpc otlp_in remote_write
             remote_write_in webhook sink_faults kubernetes slurm experiments_export telemetry bench_serve live top trace mcp isolate
             nccl collectives phases probes migrate)
  set_property(TEST e2e_${name} APPEND PROPERTY LABELS sanitize)
endforeach()
# Some 30 faults, each with several queries: three machines at the same time.
foreach(part 1 2 3)
  add_test(NAME e2e_health_matrix_${part} COMMAND ${e2e_python} -m unittest -v test_health_matrix WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
  set_tests_properties(e2e_health_matrix_${part} PROPERTIES LABELS e2e TIMEOUT 600 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;GPULENS_PART=${part}/3")
endforeach()
# Every collector with every sink.
set_tests_properties(e2e_seed_rows_delivery PROPERTIES TIMEOUT 900)
# The page in chromium.
foreach(name page states fleet)
  add_test(NAME e2e_page_${name} COMMAND ${e2e_python} -m unittest -v test_page.Page.test_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/page)
  set_tests_properties(e2e_page_${name} PROPERTIES LABELS e2e TIMEOUT 300 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
# Other programs that take long to build, which tools/prepare_go_peers.sh does only on request: ./dev test --peers.
foreach(name telemetrygen prometheus3 keda_client history_prometheus)
  add_test(NAME peers_${name} COMMAND ${e2e_python} -m unittest -v test_${name}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
  set_tests_properties(peers_${name} PROPERTIES LABELS peers TIMEOUT 300 RESOURCE_LOCK peers_${name}
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
# The packages, and what is in them; in bare systems that tools/prepare_roots.sh makes. Each packs build/release once or twice.
foreach(name packages seal bare_roots systemd)
  add_test(NAME peers_${name} COMMAND ${e2e_python} -m unittest -v test_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/packages)
  set_tests_properties(peers_${name} PROPERTIES LABELS peers TIMEOUT 1200 RESOURCE_LOCK build_package ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
add_test(NAME pythons_same_wheels COMMAND ${e2e_python} -m unittest -v test_wheels WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/packages)
set_tests_properties(pythons_same_wheels PROPERTIES LABELS pythons TIMEOUT 3600 RESOURCE_LOCK wheel ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
# The image in a root of its own, and under a rootless podman.
add_test(NAME e2e_image COMMAND ${e2e_python} -m unittest -v test_image.Contents test_image.InReadOnlyRoot test_image.AfterAContainerToolkit
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/packages)
add_test(NAME peers_image COMMAND ${e2e_python} -m unittest -v test_image.UnderPodman WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/packages)
foreach(label e2e peers)
  set_tests_properties(${label}_image PROPERTIES LABELS ${label} TIMEOUT 600 RESOURCE_LOCK build_image ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
# The pictures of README show what the program shows.
add_test(NAME e2e_pictures COMMAND ${e2e_python} -m unittest -v test_pictures WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/page)
set_tests_properties(e2e_pictures PROPERTIES LABELS e2e TIMEOUT 300 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
# The modules of the page, without a browser.
add_test(NAME e2e_page_modules COMMAND ${e2e_python} -m unittest -v test_modules WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/page)
set_tests_properties(e2e_page_modules PROPERTIES LABELS e2e TIMEOUT 300 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
# What is deployed: rules, compose files, the chart.
foreach(name rules alerts_live compose chart seed_rows_deploy units)
  add_test(NAME e2e_${name} COMMAND ${e2e_python} -m unittest -v test_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/deploy)
  set_tests_properties(e2e_${name} PROPERTIES LABELS e2e TIMEOUT 300 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
# The compose file's VictoriaMetrics and vmalert.
add_test(NAME peers_compose COMMAND ${e2e_python} -m unittest -v test_compose_vmalert WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/deploy)
set_tests_properties(peers_compose PROPERTIES LABELS peers TIMEOUT 300 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
foreach(name cluster pods)
  add_test(NAME peers_${name} COMMAND ${e2e_python} -m unittest -v test_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/deploy)
  set_tests_properties(peers_${name} PROPERTIES LABELS peers TIMEOUT 300 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
set_tests_properties(peers_pods PROPERTIES RESOURCE_LOCK build_image)
# What is built, read as ELF.
foreach(name hardening libraries)
  add_test(NAME e2e_${name} COMMAND ${e2e_python} -m unittest -v test_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/packages)
  set_tests_properties(e2e_${name} PROPERTIES LABELS e2e TIMEOUT 300 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
# What ./dev release does, and the lines of pages with what it makes; for arm64, under qemu-user.
foreach(name release arm64)
  add_test(NAME peers_${name} COMMAND ${e2e_python} -m unittest -v test_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/packages)
  set_tests_properties(peers_${name} PROPERTIES LABELS peers TIMEOUT 3600 RESOURCE_LOCK build_package ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
# The documentation: its links, and the site that ./dev docs makes, whose packages take a while to fetch.
add_test(NAME e2e_docs COMMAND ${e2e_python} -m unittest -v test_docs.Pages WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/docs)
add_test(NAME peers_docs_site COMMAND ${e2e_python} -m unittest -v test_docs.Site WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/docs)
set_tests_properties(e2e_docs PROPERTIES LABELS e2e TIMEOUT 300 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
set_tests_properties(peers_docs_site PROPERTIES LABELS peers TIMEOUT 600 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
# Real serving engines, which tools/prepare_engines.sh fetches; each skips, with the reason, where it is not there. Those
# that are quick to fetch and to start run always; the heavy ones have a label of their own: ./dev test --engines.
foreach(name triton mooncake litellm dynamo llama_cpp)
  set(label engines)
  if(name MATCHES "triton|mooncake")
    set(label e2e)
  endif()
  add_test(NAME engines_${name} COMMAND ${e2e_python} -m unittest -v test_${name}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/engines)
  set_tests_properties(engines_${name} PROPERTIES LABELS ${label} TIMEOUT 300 RESOURCE_LOCK engines_${name}
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
# The agent and its receiver are killed again and again: a short form always, a long one for ./dev test --soak, which
# sets GPULENS_SOAK_MINUTES.
foreach(label e2e soak)
  add_test(NAME ${label}_kill COMMAND ${e2e_python} -m unittest -v test_kill WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/soak)
  add_test(NAME ${label}_ledger_demo COMMAND ${e2e_python} -m unittest -v test_ledger_demo WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/soak)
  set_tests_properties(${label}_kill ${label}_ledger_demo PROPERTIES LABELS ${label} ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
set_tests_properties(e2e_kill e2e_ledger_demo PROPERTIES TIMEOUT 300 ENVIRONMENT_MODIFICATION "GPULENS_SOAK_MINUTES=unset:")
set_tests_properties(soak_kill soak_ledger_demo PROPERTIES TIMEOUT 86400)
# The proxy is killed again and again before a provider that misbehaves: 64 x 200 requests always, 64 x 10,000 for ./dev test --soak.
foreach(label e2e soak)
  add_test(NAME ${label}_proxy_chaos COMMAND ${e2e_python} -m unittest -v test_proxy_chaos WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
  set_tests_properties(${label}_proxy_chaos PROPERTIES LABELS ${label} ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endforeach()
set_tests_properties(e2e_proxy_chaos PROPERTIES TIMEOUT 300 ENVIRONMENT_MODIFICATION "GPULENS_SOAK_MINUTES=unset:")
set_tests_properties(soak_proxy_chaos PROPERTIES TIMEOUT 86400)
set_property(TEST e2e_proxy_chaos APPEND PROPERTY LABELS sanitize)
# No call is refused that an agent with every feature needs: a short form among the heavy tests, a long one for ./dev test --soak.
foreach(label peers soak)
  add_test(NAME ${label}_sandbox_log COMMAND ${e2e_python} -m unittest -v test_sandbox_log WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/soak)
  set_tests_properties(${label}_sandbox_log PROPERTIES LABELS ${label} ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;TRY_INSIDE=$<TARGET_FILE:try_inside>")
endforeach()
set_tests_properties(peers_sandbox_log PROPERTIES TIMEOUT 300 ENVIRONMENT_MODIFICATION "GPULENS_SOAK_MINUTES=unset:")
set_tests_properties(soak_sandbox_log PROPERTIES TIMEOUT 86400)
# Its own 10,000 connections are noise for the others' clocks.
set_tests_properties(e2e_many_clients PROPERTIES RUN_SERIAL TRUE)

add_test(NAME differential_exposition
         COMMAND ${e2e_python} ${CMAKE_SOURCE_DIR}/tests/differential/exposition_differential.py
                 --dump $<TARGET_FILE:exposition_dump>)
set_tests_properties(differential_exposition PROPERTIES LABELS e2e TIMEOUT 300 SKIP_RETURN_CODE 77)

add_executable(quantile_dump tests/differential/quantile_dump_main.cc)
target_link_libraries(quantile_dump PRIVATE gpulens_flags gpulens_core)
add_test(NAME differential_histogram_quantile
         COMMAND ${e2e_python} ${CMAKE_SOURCE_DIR}/tests/differential/histogram_quantile.py
                 --dump $<TARGET_FILE:quantile_dump>)
set_tests_properties(differential_histogram_quantile PROPERTIES LABELS e2e TIMEOUT 120 SKIP_RETURN_CODE 77)

# A misspelt key of an option and one of another type do not compile.
foreach(fault OK MISSPELT WRONG_TYPE)
  string(TOLOWER ${fault} name)
  add_test(NAME tools_option_keys_${name} COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only -D${fault} -Isrc -Iinclude
           tests/compile/option_keys.cc WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(tools_option_keys_${name} PROPERTIES LABELS tools)
  if(NOT fault STREQUAL "OK")
    set_tests_properties(tools_option_keys_${name} PROPERTIES WILL_FAIL TRUE)
  endif()
endforeach()

# Against a real NVIDIA GPU; skipped, with the reason, where there is none. The package brings it along.
add_test(NAME gpu_real COMMAND ${e2e_python} test_real_gpu.py WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/gpu)
set_tests_properties(gpu_real PROPERTIES LABELS gpu TIMEOUT 300 RUN_SERIAL TRUE SKIP_REGULAR_EXPRESSION "SKIP ALL"
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")

add_executable(grpc_pair tests/differential/grpc_pair_main.cc)
target_link_libraries(grpc_pair PRIVATE gpulens_flags gpulens_net_grpc gpulens_wire)
add_test(NAME e2e_grpc COMMAND ${e2e_python} -m unittest -v test_grpc WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
set_tests_properties(e2e_grpc PROPERTIES LABELS "e2e;sanitize" TIMEOUT 300
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;GRPC_PAIR=$<TARGET_FILE:grpc_pair>")

# A program with instruments, as a user writes one; linked as the installed SDK is.
add_executable(inference_program tests/sdk/inference_program_main.cc)
target_link_libraries(inference_program PRIVATE gpulens_flags gpulens_sdk_inference)
add_test(NAME e2e_telemetry_postgres COMMAND ${e2e_python} -m unittest -v test_telemetry_postgres
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
set_tests_properties(e2e_telemetry_postgres PROPERTIES LABELS e2e TIMEOUT 300
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;INFERENCE_PROGRAM=$<TARGET_FILE:inference_program>")
add_test(NAME peers_telemetry_clickhouse COMMAND ${e2e_python} -m unittest -v test_telemetry_clickhouse
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
set_tests_properties(peers_telemetry_clickhouse PROPERTIES LABELS peers TIMEOUT 300
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;INFERENCE_PROGRAM=$<TARGET_FILE:inference_program>")
add_test(NAME e2e_why COMMAND ${e2e_python} -m unittest -v test_why.Command WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
set_tests_properties(e2e_why PROPERTIES LABELS "e2e;sanitize" TIMEOUT 300 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
# Waits for a minute of history, and until causes are over.
add_test(NAME peers_why COMMAND ${e2e_python} -m unittest -v test_why.Demo WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
set_tests_properties(peers_why PROPERTIES LABELS peers TIMEOUT 300 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
add_test(NAME e2e_cost COMMAND ${e2e_python} -m unittest -v test_cost.Cost test_cost.Postgres WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
set_tests_properties(e2e_cost PROPERTIES LABELS "e2e;sanitize" TIMEOUT 300 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
add_test(NAME peers_cost COMMAND ${e2e_python} -m unittest -v test_cost.Peers WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
set_tests_properties(peers_cost PROPERTIES LABELS peers TIMEOUT 300 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
# Writes the ledger of a simulated month: for docs/ledger.md and the tests of reports.
add_executable(ledger_month tests/ledger/month_main.cc)
target_link_libraries(ledger_month PRIVATE gpulens_ledger gpulens_store_ledger)
add_executable(sdk_program tests/sdk/sdk_program_main.cc)
target_link_libraries(sdk_program PRIVATE gpulens_flags gpulens_base gpulens_sdk_training gpulens_sdk_export gpulens_sdk_energy
                      gpulens_sdk_training)
target_link_options(sdk_program PRIVATE LINKER:-u,gpulens_heeds_environment)
add_test(NAME e2e_sdk COMMAND ${e2e_python} -m unittest -v test_sdk test_energy_feed WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
set_tests_properties(e2e_sdk PROPERTIES LABELS "e2e;sanitize" TIMEOUT 300
  ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;SDK_PROGRAM=$<TARGET_FILE:sdk_program>")
# Dashboards over two demo nodes: two minutes of scraping, in which it waits.
add_test(NAME e2e_dashboards COMMAND ${e2e_python} -m unittest -v test_dashboards WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/deploy)
set_tests_properties(e2e_dashboards PROPERTIES LABELS e2e TIMEOUT 600 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;SDK_PROGRAM=$<TARGET_FILE:sdk_program>")
# Tries from inside the agent's processes what they may not do.
add_executable(try_inside tests/sandbox/try_inside.cc)
target_link_libraries(try_inside PRIVATE gpulens_flags gpulens_base)
add_test(NAME e2e_sandbox COMMAND ${e2e_python} -m unittest -v test_sandbox WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/e2e)
set_tests_properties(e2e_sandbox PROPERTIES LABELS e2e TIMEOUT 300 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;TRY_INSIDE=$<TARGET_FILE:try_inside>")
set_property(TEST e2e_proxy_sandbox APPEND PROPERTY ENVIRONMENT "TRY_INSIDE=$<TARGET_FILE:try_inside>")
# Many nodes that send what one agent sent: for the tests of a fleet.
add_executable(fleet_load tests/fleet/fleet_load_main.cc)
target_link_libraries(fleet_load PRIVATE gpulens_flags gpulens_delivery gpulens_wire_remote_write gpulens_wire_otlp)
foreach(label e2e soak)
  add_test(NAME ${label}_fleet COMMAND ${e2e_python} -m unittest -v test_fleet WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/fleet)
  set_tests_properties(${label}_fleet PROPERTIES LABELS ${label} ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;FLEET_LOAD=$<TARGET_FILE:fleet_load>")
endforeach()
add_test(NAME e2e_fleet_page COMMAND ${e2e_python} -m unittest -v test_fleet_page WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/fleet)
set_tests_properties(e2e_fleet_page PROPERTIES LABELS e2e TIMEOUT 300 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;FLEET_LOAD=$<TARGET_FILE:fleet_load>")
set_tests_properties(e2e_fleet PROPERTIES TIMEOUT 300 ENVIRONMENT_MODIFICATION "GPULENS_SOAK_MINUTES=unset:")
set_tests_properties(soak_fleet PROPERTIES TIMEOUT 86400)
# A job that writes a page as its input says.
add_executable(job_page_program tests/inject/job_page_program.cc)
target_include_directories(job_page_program PRIVATE src)
target_link_libraries(job_page_program PRIVATE gpulens_flags)
add_dependencies(e2e_programs job_page_program)
add_dependencies(e2e_programs quantile_dump exposition_dump grpc_pair inference_program sdk_program ledger_month fake_nvml fake_amdsmi
                 nvml_reader_main amdsmi_reader_main fleet_load try_inside)

# Fails for a file of tests that no test runs.
file(GLOB e2e_files CONFIGURE_DEPENDS tests/e2e/test_*.py tests/deploy/test_*.py tests/fleet/test_*.py tests/packages/test_*.py)
file(READ ${CMAKE_CURRENT_LIST_FILE} e2e_listed)
foreach(file ${e2e_files})
  get_filename_component(name ${file} NAME_WE)
  string(REPLACE "test_" "" short ${name})
  if(NOT e2e_listed MATCHES "[ \n]${short}[ \n)]" AND NOT e2e_listed MATCHES "[ \"/]${name}[ .\n\"]")
    message(FATAL_ERROR "${file}: no test runs it; tests/targets.cmake lists them")
  endif()
endforeach()
