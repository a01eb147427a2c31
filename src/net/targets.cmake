# Sockets, TLS, HTTP, HTTP/2, gRPC, WebSocket.
include_guard()
add_gpulens_library(net_message DIR src/net/message DEPS gpulens_base PRIVATE_DEPS Boost::headers)
add_gpulens_library(net_blocking DIR src/net/blocking DEPS gpulens_net_message TEST_DEPS gpulens_net_testing)
add_gpulens_library(net DEPS gpulens_net_message PRIVATE_DEPS Boost::headers OpenSSL::SSL OpenSSL::Crypto dep_deflate
  TEST_DEPS Boost::headers OpenSSL::SSL OpenSSL::Crypto gpulens_net_testing)
add_gpulens_library(net_auth DIR src/net/auth DEPS gpulens_net PRIVATE_DEPS OpenSSL::Crypto gpulens_base_yaml
  TEST_DEPS gpulens_net_testing)
add_gpulens_library(net_server DIR src/net/server DEPS gpulens_net_auth gpulens_net_blocking TEST_DEPS gpulens_net_testing)
add_gpulens_library(net_http DIR src/net/http DEPS gpulens_net_server TEST_DEPS gpulens_net_testing)
add_gpulens_library(net_client DIR src/net/client DEPS gpulens_net gpulens_net_blocking TEST_DEPS gpulens_net_testing)
add_gpulens_library(net_relay DIR src/net/relay DEPS gpulens_net_server
  TEST_DEPS gpulens_net_testing gpulens_base_testing)
add_gpulens_library(net_http2 DIR src/net/http2 DEPS gpulens_net PRIVATE_DEPS dep_nghttp2 TEST_DEPS dep_nghttp2)
add_gpulens_library(net_grpc DIR src/net/grpc DEPS gpulens_net_http2 gpulens_net_client gpulens_net_http
  PRIVATE_DEPS dep_deflate TEST_DEPS gpulens_net_testing dep_deflate)
add_gpulens_library(net_websocket DIR src/net/websocket DEPS gpulens_net_http PRIVATE_DEPS Boost::headers
  TEST_DEPS gpulens_net_testing)
add_gpulens_library(net_testing DIR src/net/testing DEPS gpulens_net gpulens_base_testing PRIVATE_DEPS OpenSSL::SSL
  OpenSSL::Crypto)
