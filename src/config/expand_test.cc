#include "config/expand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/testing/temp_folder.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;

std::optional<std::string_view> VariableForTest(std::string_view name) {
  if (name == "REGION") return "eu";
  if (name == "EMPTY") return "";
  if (name == "NESTED") return "${REGION} $$";
  if (name == "BYTES") return "\xff";
  return std::nullopt;
}

Result<std::string> FileForTest(const std::string& path) {
  if (path == "/token") return std::string("s3cret");
  if (path == "/large") return std::string(64 << 10, 'x');
  return Status{Code::kUnavailable, "no such file"};
}

Result<std::string> CredentialForTest(const std::string& name) {
  if (name == "api.token-1_x") return std::string("from the manager");
  return Status{Code::kUnavailable, "open /run/x: no such file or directory"};
}

struct Expanded {
  std::string text;
  bool replaced = false, secret = false;
  std::string problems;
};

Expanded Expand(const std::string& value, bool files = true) {
  SourceText source("gpulens.yaml", "key: " + value + "\n");
  ConfigProblems problems;
  YamlTree tree = ParseYaml(source, problems);
  EXPECT_EQ(problems.count(), 0u);
  ExpandFrom from{&VariableForTest, nullptr, nullptr};
  if (files) from.file = &FileForTest;
  if (files) from.credential = &CredentialForTest;
  ExpandValues(tree, source, from, problems);
  const YamlNode* node = tree.root()->Find("key");
  Expanded out{node->text, node->replaced, node->secret, ""};
  for (const Diagnostic& problem : problems.Shown(&source)) out.problems += Render(problem);
  return out;
}

TEST(Expand, VariablesFilesAndDollars) {
  EXPECT_EQ(Expand("prod-${REGION}-1").text, "prod-eu-1");
  EXPECT_EQ(Expand("${env:REGION}").text, "eu");
  EXPECT_EQ(Expand("'${REGION}${REGION}'").text, "eueu");
  EXPECT_EQ(Expand("\"${EMPTY}\"").text, "");
  EXPECT_EQ(Expand("${EMPTY:-us}").text, "us");
  EXPECT_EQ(Expand("${NOWHERE:-a b}").text, "a b");
  EXPECT_EQ(Expand("${REGION:-us}").text, "eu");
  EXPECT_EQ(Expand("a$$b$$").text, "a$b$");
  EXPECT_EQ(Expand("$${REGION}").text, "${REGION}");
  EXPECT_EQ(Expand("pa$word$").text, "pa$word$") << "a $ alone is one";
  EXPECT_FALSE(Expand("pa$word$").replaced);
  EXPECT_EQ(Expand("${NESTED}").text, "${REGION} $$") << "once only";
  const Expanded token = Expand("Bearer ${file:/token}");
  EXPECT_EQ(token.text, "Bearer s3cret");
  EXPECT_TRUE(token.secret && token.replaced);
  EXPECT_FALSE(Expand("${REGION}").secret);
  for (const char* good : {"${REGION}", "$${X}", "a$$"}) EXPECT_EQ(Expand(good).problems, "") << good;
}

TEST(Expand, ErrorsHaveTheirPlace) {
  EXPECT_EQ(Expand("a ${NOWHERE} b").problems,
            "gpulens.yaml:1:8: the environment variable NOWHERE is not set\n"
            "  1 | key: a ${NOWHERE} b\n"
            "    |        ^~~~~~~~~~  ${NOWHERE:-text} would be text; a $ itself is written $$\n");
  EXPECT_EQ(Expand("a ${NOWHERE} b").text, "a ${NOWHERE} b");
  EXPECT_THAT(Expand("${REGION").problems, HasSubstr("the } of ${ is missing"));
  EXPECT_THAT(Expand("${}").problems, HasSubstr("is not a valid variable name"));
  EXPECT_THAT(Expand("${a-b}").problems, HasSubstr("is not a valid variable name"));
  EXPECT_THAT(Expand("${1A}").problems, HasSubstr("is not a valid variable name"));
  EXPECT_THAT(Expand("${file:/no}").problems, HasSubstr("cannot read \"/no\": no such file"));
  EXPECT_THAT(Expand("${file:/token}", false).problems, HasSubstr("files are not read here"));
  EXPECT_THAT(Expand("${BYTES}").problems, HasSubstr("not UTF-8"));
  EXPECT_THAT(Expand("${NOWHERE}${ELSEWHERE}").problems, HasSubstr("ELSEWHERE")) << "all of them";
}

TEST(Expand, CredentialsAreSecretAndErrorsNameThem) {
  const Expanded token = Expand("Bearer ${credential:api.token-1_x}");
  EXPECT_EQ(token.text, "Bearer from the manager");
  EXPECT_TRUE(token.secret && token.replaced);
  const std::string missing = Expand("${credential:other}").problems;
  EXPECT_THAT(missing, HasSubstr("cannot read the credential other: open /run/x: no such file"));
  EXPECT_THAT(missing, HasSubstr("LoadCredential=other:/path/to/file"));
  for (const std::string& bad : {std::string(), std::string(".."), std::string("a/b"), std::string(".x"),
                                 std::string("a..b"), std::string("a:-b"), std::string(256, 'a')})
    EXPECT_THAT(Expand("${credential:" + bad + "}").problems,
                HasSubstr("is not a valid name of a credential"));
  EXPECT_TRUE(IsCredentialName(std::string(255, 'a')));
  EXPECT_FALSE(IsCredentialName(std::string_view("a\0b", 3)));
  EXPECT_THAT(Expand("${credential:other}", false).problems, HasSubstr("files are not read here"));
}

TEST(Expand, LimitsExpandedBytes) {
  std::string value = "'";
  for (int i = 0; i < 1000; ++i) value += "${file:/large}";
  const Expanded one = Expand(value + "'");
  EXPECT_THAT(one.problems, HasSubstr("too long"));
  EXPECT_LT(one.text.size(), 100'000u);
}

TEST(Expand, EscapedTextsReadBack) {
  for (const char* text : {"", "$", "$$", "a$b", "${", "${X}", "$$${X}$", "$$$$", "x$", "${file:/token}"}) {
    EXPECT_EQ(Expand("'" + EscapeDollars(text) + "'").text, text);
    EXPECT_EQ(Expand("'" + EscapeDollars(text) + "'").problems, "");
  }
  EXPECT_EQ(EscapeDollars("pa$word"), "pa$word");
}

TEST(Expand, OnlyRegularFilesAreRead) {
  testing::TempFolder folder;
  const std::string file = folder.path() + "/token", pipe = folder.path() + "/pipe";
  ASSERT_TRUE(WriteFileAtomically(file, "s3cret\r\n\n").ok());
  EXPECT_EQ(ReadValueFile(file).value_or(""), "s3cret");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, folder.path(), folder.path() + "/none", std::string("/dev/zero")})
    EXPECT_FALSE(ReadValueFile(path).ok()) << path;
  ASSERT_TRUE(WriteFileAtomically(file, std::string(65 << 10, 'x')).ok());
  EXPECT_FALSE(ReadValueFile(file).ok());
}

}  // namespace
}  // namespace gpulens
