# SQLite, ClickHouse and PostgreSQL.
include_guard()
add_gpulens_library(store_sqlite DIR src/store/sqlite DEPS gpulens_base PRIVATE_DEPS dep_sqlite)
add_gpulens_library(store_experiments DIR src/store/experiments DEPS gpulens_store_sqlite gpulens_wire_json
  PRIVATE_DEPS dep_sqlite TEST_DEPS dep_sqlite)
add_gpulens_library(store_sketch DIR src/store/sketch DEPS gpulens_base)
add_gpulens_library(store_telemetry DIR src/store/telemetry DEPS gpulens_store_sqlite gpulens_store_experiments
  gpulens_store_sketch PRIVATE_DEPS dep_sqlite TEST_DEPS dep_sqlite)
add_gpulens_library(store_ledger DIR src/store/ledger DEPS gpulens_ledger gpulens_store_sqlite TEST_DEPS dep_sqlite)
add_gpulens_library(store_charges DIR src/store/charges DEPS gpulens_store_sqlite gpulens_store_postgres gpulens_store_clickhouse gpulens_wire_llm
  PRIVATE_DEPS dep_sqlite TEST_DEPS dep_sqlite gpulens_net_testing)
add_gpulens_library(store_postgres DIR src/store/postgres DEPS gpulens_base)
add_gpulens_library(store_telemetry_postgres DIR src/store/telemetry/postgres DEPS gpulens_store_postgres
  gpulens_store_telemetry)
add_gpulens_library(store_clickhouse DIR src/store/clickhouse DEPS gpulens_net_blocking TEST_DEPS gpulens_net_client gpulens_net_testing)
add_gpulens_library(store_telemetry_clickhouse DIR src/store/telemetry/clickhouse DEPS gpulens_store_clickhouse
  gpulens_store_telemetry TEST_DEPS gpulens_net_testing)
add_gpulens_library(store_telemetry_servers DIR src/store/telemetry/servers DEPS gpulens_store_telemetry_postgres
  gpulens_store_telemetry_clickhouse)
add_gpulens_library(store_ledger_servers DIR src/store/ledger/servers DEPS gpulens_store_ledger gpulens_store_postgres
  gpulens_store_clickhouse TEST_DEPS gpulens_net_testing)
add_gpulens_library(store DEPS gpulens_core gpulens_store_sqlite gpulens_wire_json TEST_DEPS dep_sqlite)
foreach(bench store_telemetry_bench store_ledger_bench)
  if(TARGET ${bench})
    target_link_libraries(${bench} PRIVATE gpulens_base_testing)
  endif()
endforeach()
