# The persistent queue and its senders.
include_guard()
add_gpulens_library(delivery TESTS_APART DEPS gpulens_net_client gpulens_net_grpc PRIVATE_DEPS dep_deflate TEST_DEPS gpulens_net_testing)
