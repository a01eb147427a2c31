// The scaler over gRPC, from a client's call to ticks of engines.

#include "plugins/sinks/keda/keda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "net/grpc/grpc_client.h"
#include "net/io_loop.h"
#include "plugins/sinks/keda/scaler_testing.h"
#include "wire/external_scaler/external_scaler.h"

namespace gpulens {
extern const SinkSpec keda_sink;
namespace keda {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

std::string Bytes(char tag, std::string_view text) {
  return std::string(1, tag) + static_cast<char>(text.size()) + std::string(text);
}

class KedaTest : public ::testing::Test {
 protected:
  KedaTest() {
    loop_.Start();
    env_.io = &loop_;
    env_.clock = &clock_;
    server_ = *ScalerServer::Open({.plugin = "keda",
                                   .listen = {"127.0.0.1:0"},
                                   .insecure = false,
                                   .protocol = "KEDA's external scaler",
                                   .group = "sinks"},
                                  env_);
    GrpcTarget target;
    target.url = *ParseHttpUrl("http://127.0.0.1");
    target.url.port = server_->addresses().at(0).port;
    channel_ = client_.Open(target);
  }
  ~KedaTest() override {
    channel_ = nullptr;
    server_ = nullptr;
    loop_.Stop();
  }

  void Tick() {
    loop_.Call([&] { clock_.Advance(seconds(5)); });  // the loop's calls read the clock
    server_->Update(*ticks_.Close(clock_.Now()));
  }
  static std::string Object(const std::map<std::string, std::string>& metadata) {
    std::string out = Bytes(0x0a, "chat") + Bytes(0x12, "ml");
    for (const auto& [key, value] : metadata) out += Bytes(0x1a, Bytes(0x0a, key) + Bytes(0x12, value));
    return out;
  }
  GrpcReply Call(std::string_view path, std::string message) {
    auto came = std::make_shared<std::promise<GrpcReply>>();
    GrpcCall call{path,  {},      std::make_shared<const std::string>(std::move(message)),
                  false, nullptr, seconds(20)};
    loop_.Call([&] {
      channel_->Call(std::move(call), [came](GrpcReply& reply) { came->set_value(std::move(reply)); });
    });
    return came->get_future().get();
  }

  ManualClock clock_;
  IoLoop loop_;
  Env env_;
  TestTicks ticks_;
  std::unique_ptr<ScalerServer> server_;
  GrpcClient client_{loop_};
  std::unique_ptr<GrpcChannel> channel_;
  const std::map<std::string, std::string> queue_ = {{"metric", "queue"}, {"target", "4"}};
};

TEST_F(KedaTest, AnswersEveryMethod) {
  ticks_.Start("a").waiting = 6;
  Tick();
  EXPECT_EQ(Call(kScalerGetMetricSpec, Object(queue_)).answer, WriteMetricSpec("queue", 4));
  EXPECT_EQ(Call(kScalerIsActive, Object(queue_)).answer, WriteIsActive(true));
  const GrpcReply number = Call(kScalerGetMetrics, Bytes(0x0a, Object(queue_)) + Bytes(0x12, "queue"));
  EXPECT_EQ(number.code, GrpcCode::kOk) << number.message;
  EXPECT_EQ(number.answer, WriteMetricValue("queue", 6));
  EXPECT_EQ(Call("/externalscaler.ExternalScaler/StreamMetricSpec", Object(queue_)).code,
            GrpcCode::kUnimplemented)
      << "KEDA goes on without";
}

TEST_F(KedaTest, WhatIsUnknownIsUnavailableAndWhatIsWrongIsRefused) {
  GrpcReply reply = Call(kScalerGetMetrics, Bytes(0x0a, Object(queue_)));
  EXPECT_EQ(reply.code, GrpcCode::kUnavailable);
  EXPECT_THAT(reply.message, HasSubstr("no target has an engine"));
  EXPECT_EQ(Call(kScalerIsActive, Object(queue_)).code, GrpcCode::kUnavailable);
  EXPECT_EQ(Call(kScalerGetMetricSpec, Object(queue_)).code, GrpcCode::kOk)
      << "targets do not depend on pods";
  reply = Call(kScalerGetMetrics, Bytes(0x0a, Object({{"metric", "queue"}, {"treshold", "4"}})));
  EXPECT_EQ(reply.code, GrpcCode::kInvalidArgument);
  EXPECT_THAT(reply.message, HasSubstr("known: metric, target, activation"));
  EXPECT_EQ(Call(kScalerGetMetrics, Bytes(0x0a, Object(queue_)) + Bytes(0x12, "ttft")).code,
            GrpcCode::kInvalidArgument);
  EXPECT_EQ(Call(kScalerIsActive, "\x0a\x7f").code, GrpcCode::kInvalidArgument);
  EXPECT_EQ(Call(kScalerIsActive, std::string(kScalerRequestBytes + 1, 'a')).code,
            GrpcCode::kResourceExhausted);
}

TEST_F(KedaTest, AStreamEndsWithTheScaler) {
  ticks_.Start("a").running = 1;
  Tick();
  auto ended = std::async(std::launch::async, [&] { return Call(kScalerStreamIsActive, Object(queue_)); });
  // The unary client refuses the second message, or sees the end; either way the call is answered.
  for (int i = 0; i < 3; ++i) {
    ticks_["a"].running = i % 2;
    Tick();
  }
  server_->Close(seconds(1));
  EXPECT_NE(ended.get().code, GrpcCode::kOk);
}

TEST(KedaSink, RefusesOtherMachinesWithoutTls) {
  IoLoop loop;
  loop.Start();
  Env env;
  env.io = &loop;
  Config config;
  config.Set("listen", std::vector<std::string>{"0.0.0.0:0"}, {});
  config.Set("insecure", false, {});
  const auto refused = keda_sink.create(config, env);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().detail, HasSubstr("sinks.keda.insecure: true"));
  config.Set("insecure", true, {});
  EXPECT_TRUE(keda_sink.create(config, env).ok());
  loop.Stop();
}

}  // namespace
}  // namespace keda
}  // namespace gpulens
