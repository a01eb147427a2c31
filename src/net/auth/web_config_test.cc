#include "net/auth/web_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHash = "$2y$04$q5LhxlxD4e07/Nmn6a1ia.7Gs7jiUZ9w0Nru8eXqbVxxAlma4IeJK";

std::string Why(std::string_view text) {
  auto parsed = ParseWebConfig(text, "conf/web.yml");
  if (parsed) return "good";
  EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
  return parsed.error().detail;
}

TEST(WebConfig, EveryKey) {
  auto config = ParseWebConfig(R"(tls_server_config:
  cert_file: server.pem
  key_file: /etc/key.pem
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
  client_allowed_sans: [a.example, 10.0.0.1]
  min_version: TLS13
  max_version: TLS13
  cipher_suites: [TLS_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences: [X25519]
http_server_config:
  http2: false
  headers:
    Strict-Transport-Security: max-age=31536000
    X-Frame-Options: deny
basic_auth_users:
  alice: )" + std::string(kHash) + R"(
bearer_token_file: token
)",
                               "conf/web.yml");
  ASSERT_TRUE(config.ok()) << config.error().detail;
  EXPECT_EQ(config->tls->certificate.file, "conf/server.pem");
  EXPECT_EQ(config->tls->key.file, "/etc/key.pem");
  EXPECT_EQ(config->tls->client_auth, ClientAuth::kRequireAndVerifyClientCert);
  EXPECT_THAT(config->tls->client_allowed_sans, ElementsAre("a.example", "10.0.0.1"));
  EXPECT_EQ(config->tls->min_version, TlsVersion::kTls13);
  EXPECT_FALSE(config->tls->prefer_server_ciphers);
  EXPECT_THAT(config->tls->curves, ElementsAre("X25519"));
  EXPECT_FALSE(config->http2);
  EXPECT_EQ(config->headers.size(), 2u);
  EXPECT_EQ(config->users.at("alice"), kHash);
  EXPECT_EQ(config->bearer_token_file, "conf/token");
  EXPECT_THAT(config->Files(), ElementsAre("conf/server.pem", "/etc/key.pem", "conf/ca.pem", "conf/token"));
  EXPECT_TRUE(config->requests_credentials());
  EXPECT_TRUE(config->authenticates());
}

TEST(WebConfig, AcceptsAnEmptyFile) {
  for (const char* text :
       {"", "{}", "tls_server_config:\nhttp_server_config:\nbasic_auth_users:\n", "# a comment\n"}) {
    auto config = ParseWebConfig(text, "web.yml");
    ASSERT_TRUE(config.ok()) << config.error().detail;
    EXPECT_FALSE(config->tls.has_value());
    EXPECT_FALSE(config->authenticates());
  }
}

TEST(WebConfig, ErrorsNameFileLineAndKey) {
  EXPECT_EQ(Why("tls_server_config:\n  cert_file: a\n  key_fil: b\n"),
            "conf/web.yml:3: unknown key key_fil; did you mean key_file?");
  EXPECT_THAT(Why("zzz: 1"), HasSubstr("conf/web.yml:1: unknown key zzz; known: tls_server_config"));
  EXPECT_THAT(Why("- a\n"), HasSubstr("must be a map"));
  EXPECT_THAT(Why("bearer_token: a\nbearer_token: b\n"), HasSubstr(":2: duplicate key bearer_token"));
  EXPECT_THAT(Why("bearer_token: [a]\n"), HasSubstr("bearer_token must be text"));
  EXPECT_THAT(Why("bearer_token: a\nbearer_token_file: b\n"), HasSubstr("are both set"));
  EXPECT_THAT(Why("http_server_config: {http2: maybe}\n"), HasSubstr("http2 must be true or false"));
  EXPECT_THAT(Why("http_server_config: {headers: {Server: x}}\n"), HasSubstr("unknown key Server"));
  EXPECT_THAT(Why("http_server_config: {headers: {Cache-Control: \"a\\nb\"}}\n"), HasSubstr("one line"));
  EXPECT_THAT(Why("basic_auth_users: {a: secret}\n"),
              HasSubstr("the password of user a must be a bcrypt hash"));
  EXPECT_THAT(Why("basic_auth_users: {\"a:b\": " + std::string(kHash) + "}\n"),
              HasSubstr("cannot have a colon"));
  EXPECT_THAT(Why("a: [\n"), HasSubstr("conf/web.yml:"));
  EXPECT_THAT(Why("? [a]\n: b\n"), HasSubstr("a key must be text"));
  EXPECT_EQ(Why("basic_auth_users: {a: secret}\n").find("secret"), std::string::npos);
}

TEST(WebConfig, TlsThatCannotWork) {
  auto tls = [](const std::string& more) {
    return Why("tls_server_config: {cert_file: c, key_file: k, " + more + "}\n");
  };
  EXPECT_EQ(tls(""), "good");
  EXPECT_THAT(Why("tls_server_config: {key_file: k}\n"), HasSubstr("needs cert_file"));
  EXPECT_THAT(Why("tls_server_config: {cert_file: k}\n"), HasSubstr("needs key_file"));
  EXPECT_THAT(tls("cert: x"), HasSubstr("cert and cert_file are both set"));
  EXPECT_THAT(tls("key: x"), HasSubstr("key and key_file are both set"));
  EXPECT_THAT(tls("client_ca: x, client_ca_file: y"), HasSubstr("client_ca and client_ca_file are both set"));
  EXPECT_THAT(tls("min_version: TLS10"), HasSubstr("min_version: TLS10 is not one of TLS12, TLS13"));
  EXPECT_THAT(tls("min_version: TLS13, max_version: TLS12"), HasSubstr("above"));
  EXPECT_THAT(tls("client_auth_type: Yes"), HasSubstr("Yes is not one of NoClientCert"));
  EXPECT_THAT(tls("client_auth_type: RequireAndVerifyClientCert"), HasSubstr("client_ca_file is not set"));
  EXPECT_THAT(tls("client_ca_file: y"), HasSubstr("client_auth_type is NoClientCert"));
  EXPECT_THAT(tls("client_allowed_sans: [a]"), HasSubstr("needs a client_auth_type that verifies"));
  EXPECT_THAT(tls("cipher_suites: [TLS_NULL]"), HasSubstr("unknown suite TLS_NULL"));
  EXPECT_THAT(tls("cipher_suites: TLS_NULL"), HasSubstr("must be a list"));
  EXPECT_THAT(tls("cipher_suites: [[a]]"), HasSubstr("an entry must be text"));
  EXPECT_THAT(tls("curve_preferences: [P1]"), HasSubstr("unknown curve P1"));
  EXPECT_EQ(tls("cipher_suites: , curve_preferences: [CurveP256]"), "good");
}

TEST(WebConfig, BcryptHashes) {
  EXPECT_TRUE(IsBcryptHash(kHash));
  std::string hash = kHash;
  for (auto [at, with] : std::vector<std::pair<size_t, const char*>>{
           {2, "x"}, {4, "17"}, {4, "03"}, {4, "x4"}, {6, "x"}, {30, "!"}}) {
    std::string bad = hash;
    bad.replace(at, std::string(with).size(), with);
    EXPECT_FALSE(IsBcryptHash(bad)) << bad;
  }
  EXPECT_FALSE(IsBcryptHash(""));
  EXPECT_FALSE(IsBcryptHash(hash + "a"));
}

TEST(WebConfig, FilesThatCannotBeRead) {
  auto loaded = LoadWebConfig("/no/such/web.yml");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace gpulens
