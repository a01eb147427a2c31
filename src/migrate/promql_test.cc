#include "migrate/promql.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/files.h"

namespace gpulens::migrate {
namespace {

QueryParts PartsOf(std::string_view query) {
  auto parts = ReadQuery(query);
  EXPECT_TRUE(parts.ok()) << query << ": " << (parts.ok() ? "" : parts.error().detail);
  return parts ? *std::move(parts) : QueryParts();
}

std::vector<std::string> MetricsOf(std::string_view query) {
  std::vector<std::string> names;
  for (const Selector& selector : PartsOf(query).selectors) names.push_back(selector.metric);
  return names;
}

std::vector<std::string> LabelsOf(std::string_view query) {
  std::vector<std::string> names;
  for (const LabelUse& use : PartsOf(query).labels) names.push_back(use.label);
  return names;
}

using Texts = std::vector<std::string>;

TEST(ReadQuery, FindsMetricsWhereverTheyAre) {
  EXPECT_EQ(MetricsOf("up"), Texts({"up"}));
  EXPECT_EQ(MetricsOf("sum by (a, b) (rate(x_total{a=\"1\", b!~\"2.*\"}[5m])) / on(a) group_left(c) y"),
            Texts({"x_total", "y"}));
  EXPECT_EQ(MetricsOf("sum(x) without (a) > bool 3 and -y"), Texts({"x", "y"}));
  EXPECT_EQ(MetricsOf("max_over_time(rate(x[5m])[1h:1m] offset -1d)"), Texts({"x"}));
  EXPECT_EQ(MetricsOf("x offset 5m @ 1609746000 + y @ start() + z offset $off"), Texts({"x", "y", "z"}));
  EXPECT_EQ(MetricsOf("histogram_quantile(0.95, sum by (le) (rate(x_bucket[5m])))"), Texts({"x_bucket"}));
  EXPECT_EQ(MetricsOf("1e-3 * x ^ 2 % 0x1F + NaN + Inf"), Texts({"x"}));
  EXPECT_EQ(MetricsOf("# a comment {\nx # another\n"), Texts({"x"}));
  EXPECT_EQ(MetricsOf("BOTTOMK(3, x) UNLESS y"), Texts({"x", "y"}));
  EXPECT_EQ(MetricsOf("job:x:rate5m"), Texts({"job:x:rate5m"}));
}

TEST(ReadQuery, ACommentAfterAnOffsetIsNotPartOfTheValue) {
  for (const std::string value : {"x offset 5m", "x offset $off", "x @ start()", "x offset -(1 + 2)"}) {
    const QueryParts parts = PartsOf(value + " # z");
    ASSERT_EQ(parts.selectors.size(), 1u) << value;
    EXPECT_EQ(parts.selectors[0].value.end, value.size()) << value;
  }
}

TEST(ReadQuery, FindsNamesInsideBraces) {
  EXPECT_EQ(MetricsOf("{__name__=\"x\", a=\"b\"}"), Texts({"x"}));
  EXPECT_EQ(MetricsOf("{\"gpu.power.draw\", \"k8s.pod\"=\"b\"}"), Texts({"gpu.power.draw"}));
  EXPECT_EQ(MetricsOf("{\"größe\"}"), Texts({"größe"}));
  EXPECT_EQ(MetricsOf("{job=\"a\"}"), Texts({""}));
  const QueryParts pattern = PartsOf("{__name__=~\"x_.*\"}");
  EXPECT_TRUE(pattern.selectors[0].variable_name);
}

TEST(ReadQuery, AcceptsVariablesOfGrafana) {
  EXPECT_EQ(MetricsOf("rate(x{a=~\"$a\"}[$__rate_interval])"), Texts({"x"}));
  EXPECT_EQ(MetricsOf("rate(x{a=~\"${a:regex}\"}[${step}])"), Texts({"x"}));
  EXPECT_EQ(MetricsOf("rate(x{a=~\"[[a]]\"}[[[step]]])"), Texts({"x"}));
  EXPECT_EQ(MetricsOf("rate(x[$__interval:${b:raw}])"), Texts({"x"}));
  EXPECT_EQ(MetricsOf("topk($n, x) > $limit"), Texts({"x"}));
  EXPECT_EQ(MetricsOf("$agg by ($label, b) (x{$filter, c=\"d\"})"), Texts({"x"}));
  EXPECT_EQ(LabelsOf("$agg by ($label, b) (x)"), Texts({"b"}));
  EXPECT_TRUE(PartsOf("rate($metric[5m])").bare_variable);
  EXPECT_TRUE(PartsOf("DCGM_FI_DEV_${field}").selectors[0].variable_name);
  EXPECT_TRUE(PartsOf("[[m]]_total{a=\"b\"}").selectors[0].variable_name);
}

TEST(ReadQuery, KnowsGrafanasOwnFunctions) {
  EXPECT_EQ(MetricsOf("label_values(x{a=\"b\"}, gpu)"), Texts({"x"}));
  EXPECT_EQ(LabelsOf("label_values(x{a=\"b\"}, gpu)"), Texts({"gpu"}));
  EXPECT_EQ(LabelsOf("label_values(gpu)"), Texts({"gpu"}));
  EXPECT_EQ(MetricsOf("query_result(topk(5, sum(x)))"), Texts({"x"}));
  EXPECT_EQ(MetricsOf("metrics(DCGM_.*(a|b))"), Texts());
}

TEST(ReadQuery, FindsLabels) {
  EXPECT_EQ(LabelsOf("sum by (a) (x) * on (b) group_right (c) ignoring(d)"), Texts({"a", "b", "c"}));
  EXPECT_EQ(LabelsOf("label_replace(x, \"to\", \"$1\", \"from\", \"(.*)\")"), Texts({"from"}));
  EXPECT_EQ(LabelsOf("label_join(x, \"to\", \"-\", \"a\", \"b\")"), Texts({"a", "b"}));
  EXPECT_EQ(LabelsOf("sum(x) by (\"k8s.pod\")"), Texts({"k8s.pod"}));
}

TEST(ReadQuery, KnowsWhatAChangeOfUnitEncloses) {
  auto value = [](std::string_view query, size_t which = 0) {
    const TextSpan at = PartsOf(query).selectors.at(which).value;
    return std::string(query.substr(at.begin, at.end - at.begin));
  };
  EXPECT_EQ(value("sum(x{a=\"b\"})"), "x{a=\"b\"}");
  EXPECT_EQ(value("sum(rate(x{a=\"b\"}[5m] offset 1h)) / 2"), "rate(x{a=\"b\"}[5m] offset 1h)");
  EXPECT_EQ(value("max_over_time(x[1h:1m])"), "x");
  EXPECT_EQ(value("x offset 5m > 3"), "x offset 5m");
  EXPECT_EQ(value("avg_over_time(x[5m]) + y", 1), "y");
  EXPECT_EQ(PartsOf("count(x)").selectors[0].function, "count");
  EXPECT_EQ(PartsOf("count(x > 3)").selectors[0].function, "");
  EXPECT_EQ(PartsOf("changes(x[5m])").selectors[0].function, "changes");
}

TEST(ReadQuery, RefusesWhatIsNoQuery) {
  for (const char* query :
       {"", "sum(", "x{", "x{a}", "x{a=}", "x[5m", "x[]", "sum by (a", "x y", "x)", "\"open", "größe",
        "x{a=\"b\" c=\"d\"}", "rate(x[5m)", "select * from x;", "{{a}}", "x offset", "${}"}) {
    auto parts = ReadQuery(query);
    EXPECT_FALSE(parts.ok()) << query;
    if (!parts.ok()) {
      EXPECT_EQ(parts.error().code, Code::kInvalidArgument) << query;
      EXPECT_NE(parts.error().detail.find("byte "), std::string::npos) << query;
    }
  }
}

TEST(ReadQuery, HasLimits) {
  auto code = [](const std::string& query) {
    auto parts = ReadQuery(query);
    return parts.ok() ? Code::kOk : parts.error().code;
  };
  EXPECT_EQ(code(std::string(50, '(') + "x" + std::string(50, ')')), Code::kOk);
  EXPECT_EQ(code(std::string(100'000, '(')), Code::kExhausted);
  EXPECT_EQ(code(std::string(60'000, '(')), Code::kExhausted);
  std::string many = "x";
  for (int i = 0; i < 1001; ++i) many += "+x";
  EXPECT_EQ(code(many), Code::kExhausted);
  EXPECT_EQ(code(std::string(60'000, '-') + "x"), Code::kOk);
  std::string labels;
  for (int i = 0; i < 1001; ++i) labels += "a,";
  EXPECT_EQ(code("sum by (" + labels + "a) (x)"), Code::kExhausted);
  std::string matchers;
  for (int i = 0; i < 1001; ++i) matchers += "a=\"b\",";
  EXPECT_EQ(code("x{" + matchers + "}"), Code::kExhausted);
}

TEST(ReadQuery, ReadsTheBadInputsWithoutCrashing) {
  const std::string folder = "src/migrate/testdata/promql_corpus";
  size_t files = 0;
  EXPECT_TRUE(ForEachName(folder, [&](std::string_view name) {
    auto text = ReadFile(folder + "/" + std::string(name));
    if (text) static_cast<void>(ReadQuery(*text).ok());
    return ++files, true;
  }));
  EXPECT_GE(files, 8u);
}

TEST(RenameInTemplate, ChangesLabelsOnly) {
  auto rename = [](std::string_view label) {
    return label == "gpu" ? std::string("gpu_index") : std::string();
  };
  EXPECT_EQ(RenameInTemplate("GPU {{gpu}} gpu {{ gpu }}", rename), "GPU {{gpu_index}} gpu {{ gpu_index }}");
  EXPECT_EQ(RenameInTemplate("{{ $labels.gpu }} {{ $value }} {{ .Labels.gpu }}", rename),
            "{{ $labels.gpu_index }} {{ $value }} {{ .Labels.gpu_index }}");
  EXPECT_EQ(RenameInTemplate("{{ $gpu }} {{x.gpu}} {{gpus}}", rename), "{{ $gpu }} {{x.gpu}} {{gpus}}");
  EXPECT_EQ(RenameInTemplate("{{", rename), "{{");
  EXPECT_EQ(RenameInTemplate("{{ gpu $labels.gpu \"gpu\" | gpu }} {{gpu", rename),
            "{{ gpu $labels.gpu_index \"gpu\" | gpu }} {{gpu");
}

}  // namespace
}  // namespace gpulens::migrate
