#include "base/url_name.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

TEST(UrlName, HasNeitherPasswordNorParameters) {
  EXPECT_EQ(UrlName("postgresql://ada:pw@db:5432/d?sslmode=require"), "postgresql://ada@db:5432/d");
  EXPECT_EQ(UrlName("clickhouse://h"), "clickhouse://h");
  EXPECT_EQ(UrlName("postgresql:///d?password=pw"), "postgresql:///d");
  // What was not escaped is not told, either.
  EXPECT_EQ(UrlName("postgresql://ada:p@w/x?y@db/d"), "postgresql://ada@db/d");
  EXPECT_EQ(UrlName("postgresql://:pw@db"), "postgresql://db");
  EXPECT_EQ(UrlName("postgresql://ada:p@w"), "postgresql://ada@w") << "the last @ ends it";
}

}  // namespace
}  // namespace gpulens
