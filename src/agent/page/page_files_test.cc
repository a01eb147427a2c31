#include "agent/page/page_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/testing/temp_folder.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The value of a header of a response.
std::string Field(const HttpResponse& response, const std::string& name) {
  const size_t at = response.headers.find(name + ": ");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 2;
  return response.headers.substr(begin, response.headers.find('\r', begin) - begin);
}

TEST(PageFiles, ServesGzipAndPlain) {
  const PageFiles files;
  HttpResponse packed = files.Get("app.js", "br, gzip", ""), plain = files.Get("app.js", "", "");
  EXPECT_EQ(packed.status, 200);
  EXPECT_EQ(packed.content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(Field(packed, "Content-Encoding"), "gzip");
  EXPECT_EQ(Field(plain, "Content-Encoding"), "");
  EXPECT_EQ(Field(packed, "Vary"), "Accept-Encoding");
  EXPECT_EQ(Field(packed, "Cache-Control"), "no-cache");
  EXPECT_NE(Field(packed, "ETag"), Field(plain, "ETag")) << "the bytes differ";
  std::string text;
  ASSERT_TRUE(Gunzip(packed.body.bytes, 1 << 20, text));
  EXPECT_EQ(text, plain.body.bytes);
  EXPECT_EQ(text, *ReadFile(GPULENS_SOURCE_DIR "/src/page/app.js")) << "the compiled file is this one";
}

TEST(PageFiles, EveryFileHasTypeTagAndSize) {
  for (const char* name : {"app.js", "app.css", "icon.svg", "dygraph.js", "dygraph.css"}) {
    const PageFile* file = FindPageFile(name);
    ASSERT_TRUE(file) << name;
    std::string text;
    ASSERT_TRUE(Gunzip(file->gzip, file->size, text)) << name;
    EXPECT_EQ(text.size(), file->size) << name;
    EXPECT_EQ(file->tag.size(), 16u) << name;
    EXPECT_NE(PageFiles().Get(name, "gzip", "").content_type, "") << name;
  }
}

TEST(PageFiles, KnownTagIsNotSentAgain) {
  const PageFiles files;
  const std::string tag = Field(files.Get("app.js", "gzip", ""), "ETag");
  for (const std::string& known : {tag, "\"other\", W/" + tag, std::string("*")}) {
    HttpResponse response = files.Get("app.js", "gzip", known);
    EXPECT_EQ(response.status, 304) << known;
    EXPECT_EQ(response.body.bytes, "") << known;
    EXPECT_EQ(Field(response, "ETag"), tag) << known;
  }
  EXPECT_EQ(files.Get("app.js", "gzip", "\"other\"").status, 200);
  EXPECT_EQ(files.Get("app.js", "", tag).status, 200) << "the tag of the packed bytes";
}

TEST(PageFiles, ServesFolderInsteadOfCompiledFiles) {
  testing::TempFolder folder;
  folder.Write("app.js", "let x = 1;");
  folder.Write("new_view.js", "let y = 1;");
  folder.Write("secret.txt", "secret");
  const PageFiles files(folder.path());
  EXPECT_EQ(files.Get("app.js", "gzip", "").body.bytes, "let x = 1;");
  EXPECT_EQ(files.Get("new_view.js", "gzip", "").status, 200);
  EXPECT_EQ(files.Get("dygraph.js", "gzip", "").status, 200) << "what the folder lacks is the compiled one";
  const std::string before = Field(files.Get("app.js", "", ""), "ETag");
  folder.Write("app.js", "let x = 2;");
  EXPECT_EQ(files.Get("app.js", "", before).body.bytes, "let x = 2;");
  EXPECT_EQ(files.Get("secret.txt", "", "").status, 404) << "not a file of a page";
}

TEST(PageFiles, RefusesOtherNames) {
  testing::TempFolder folder;
  for (const PageFiles& files : {PageFiles(), PageFiles(folder.path())}) {
    for (const char* name : {"", "app", ".js", "../app.js", "a/app.js", "..%2fapp.js", "App.js", "app.js.map",
                             "app.js/", "app.html", "nothing.js", "a.b.js"}) {
      EXPECT_EQ(files.Get(name, "gzip", "*").status, 404) << name;
    }
    EXPECT_EQ(files.Get(std::string(100, 'a') + ".js", "", "").status, 404);
  }
}

TEST(PageFiles, PolicyAllowsNothingInline) {
  EXPECT_THAT(std::string(kPagePolicy), HasSubstr("default-src 'none'"));
  EXPECT_THAT(std::string(kPagePolicy), Not(HasSubstr("unsafe")));
}

}  // namespace
}  // namespace gpulens
