# The proxy that meters LLM APIs.
include_guard()
add_gpulens_library(proxy_admission DIR src/proxy/admission DEPS gpulens_ledger gpulens_net gpulens_store_postgres
  TEST_DEPS gpulens_net_blocking gpulens_net_testing)
add_gpulens_library(proxy_journal DIR src/proxy/journal DEPS gpulens_pricing gpulens_store_charges gpulens_delivery)
add_gpulens_library(proxy DEPS gpulens_proxy_admission gpulens_proxy_journal gpulens_net_relay gpulens_wire_llm
  gpulens_wire_exposition TEST_DEPS gpulens_net_testing gpulens_base_testing)
