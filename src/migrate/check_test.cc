#include "migrate/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "catalog/all.h"

namespace gpulens::migrate {
namespace {

struct Checked : CheckedQuery {
  Needs needs;
};

Checked Check(std::string_view from, std::string query, std::string legend = {}) {
  Checked out;
  const Exporter* exporter = FindExporter(from);
  EXPECT_NE(exporter, nullptr) << from;
  static_cast<CheckedQuery&>(out) =
      CheckQuery(*exporter, {"f", "t", "p", std::move(query), std::move(legend)}, out.needs);
  return out;
}

std::string Replacement(std::string_view from, std::string query) {
  const Checked checked = Check(from, std::move(query));
  EXPECT_EQ(checked.verdict, Verdict::kChanges) << checked.query.text;
  return checked.replacement;
}

TEST(CheckQuery, NamesOfDcgmKeepWorking) {
  const Checked checked =
      Check("dcgm", "avg by (gpu) (DCGM_FI_DEV_GPU_UTIL{Hostname=~\"$host\", job=\"dcgm\"}) > 3");
  EXPECT_EQ(checked.verdict, Verdict::kKeeps);
  EXPECT_EQ(checked.needs.Names(), std::vector<std::string>({"dcgm"}));
  EXPECT_TRUE(checked.notes.empty()) << checked.notes[0];
  EXPECT_EQ(Check("dcgm", "DCGM_FI_DEV_GPU_TEMP_CELSIUS").needs.Names(),
            std::vector<std::string>({"dcgm@4.6"}));
}

TEST(CheckQuery, NamesALabelThatIsNotOnThePage) {
  const Checked checked = Check("dcgm", "sum by (cluster) (DCGM_FI_DEV_POWER_USAGE{cluster=\"a\"})");
  EXPECT_EQ(checked.verdict, Verdict::kKeeps);
  ASSERT_EQ(checked.notes.size(), 1u);
  EXPECT_NE(checked.notes[0].find("cluster"), std::string::npos);
}

TEST(CheckQuery, NamesWhyAMetricIsNotAvailable) {
  const Checked checked = Check("dcgm", "DCGM_EXP_XID_ERRORS_COUNT > 0 or DCGM_FI_DEV_GPU_UTIL");
  EXPECT_EQ(checked.verdict, Verdict::kMissing);
  ASSERT_EQ(checked.metrics.size(), 2u);
  EXPECT_NE(checked.metrics[0].note.find("increase()"), std::string::npos);
  EXPECT_TRUE(checked.needs.names.empty());
}

TEST(CheckQuery, WritesTheQueryAgain) {
  EXPECT_EQ(Replacement("nvitop", "gpu_utilization_Percentage"), "(gpu_utilization_ratio * 100)");
  EXPECT_EQ(Replacement(
                "nvitop",
                "avg by (index) (avg_over_time(gpu_memory_used_MiB{index=~\"$gpu\"}[5m] offset 1h)) / 1024"),
            "avg by (gpu_index) ((avg_over_time(gpu_memory_used_bytes{gpu_index=~\"$gpu\"}[5m] offset 1h) / "
            "1048576)) / 1024");
  EXPECT_EQ(
      Replacement("node", "rate(node_cpu_seconds_total{mode!=\"idle\",job=\"node\"}[$__rate_interval])"),
      "rate(system_cpu_time_seconds_total{cpu_mode!=\"idle\", job=\"node\"}[$__rate_interval])");
  EXPECT_EQ(Replacement("node", "node_memory_MemFree_bytes / node_memory_MemTotal_bytes"),
            "sum without (system_memory_state) (system_memory_usage_bytes{system_memory_state=\"free\"}) / "
            "system_memory_limit_bytes");
  EXPECT_EQ(Replacement("node", "{__name__=\"node_load1\", job=\"a\"}"),
            "{__name__=\"system_cpu_load_average_1m\", job=\"a\"}");
  EXPECT_EQ(Replacement("node", "{\"node_load1\"}"), "{\"system_cpu_load_average_1m\"}");
  EXPECT_EQ(Replacement("node", "label_values(node_network_up{device!=\"lo\"}, device)"),
            "label_values(host_network_up{network_interface_name!=\"lo\"}, network_interface_name)");
  EXPECT_EQ(Replacement("node", "label_replace(node_load1, \"a\", \"$1\", \"instance\", \"(.*)\")"),
            "label_replace(system_cpu_load_average_1m, \"a\", \"$1\", \"instance\", \"(.*)\")");
  EXPECT_EQ(Replacement("nvitop", "count(gpu_temperature_C{})"),
            "count(gpu_temperature_celsius{gpu_temperature_sensor=\"edge\"})");
  EXPECT_EQ(Replacement("nvitop", "count(gpu_utilization_Percentage)"), "count(gpu_utilization_ratio)");
  EXPECT_EQ(Replacement("vmagent", "sum(vmagent_remotewrite_pending_data_bytes{url=\"1:x\"}) by (url)"),
            "sum(gpulens_sink_disk_queue_size_bytes{sink=\"1:x\"}) by (sink)");
}

TEST(CheckQuery, RenamesLabelsOfLegendsAndAlerts) {
  EXPECT_EQ(Check("nvitop", "gpu_utilization_Percentage", "GPU {{index}} of {{job}}").legend,
            "GPU {{gpu_index}} of {{job}}");
  EXPECT_EQ(Check("node", "node_filesystem_avail_bytes < 1", "summary: {{ $labels.mountpoint }}").legend,
            "summary: {{ $labels.system_filesystem_mountpoint }}");
}

TEST(CheckQuery, NeedsTheLevelThatHasTheMetricsAndLabels) {
  EXPECT_FALSE(Check("nvitop", "gpu_utilization_Percentage").needs.NeedsLevel());
  EXPECT_TRUE(Check("nvitop", "gpu_utilization_Percentage{devicename=\"H100\"}").needs.NeedsLevel())
      << "gpu_model";
  EXPECT_TRUE(Check("node", "rate(node_disk_reads_merged_total[5m])").needs.NeedsLevel());
}

// Labels that only one side of an operator has would match nothing.
TEST(CheckQuery, DropsLabelsThatTheOtherSideLacks) {
  EXPECT_EQ(Replacement("node", "node_filesystem_avail_bytes{mountpoint=\"/\"} / node_filesystem_size_bytes"),
            "sum without (system_filesystem_state) "
            "(system_filesystem_usage_bytes{system_filesystem_mountpoint=\"/\", "
            "system_filesystem_state=\"free\"}) / system_filesystem_limit_bytes");
  EXPECT_EQ(Replacement("node", "sum(node_memory_MemFree_bytes) / sum(node_memory_MemTotal_bytes)"),
            "sum(system_memory_usage_bytes{system_memory_state=\"free\"}) / sum(system_memory_limit_bytes)");
  EXPECT_EQ(
      Replacement("node", "rate(node_disk_read_bytes_total[5m]) + rate(node_disk_written_bytes_total[5m])"),
      "sum without (disk_io_direction) (rate(system_disk_io_bytes_total{disk_io_direction=\"read\"}[5m])) + "
      "sum without (disk_io_direction) (rate(system_disk_io_bytes_total{disk_io_direction=\"write\"}[5m]))");
  EXPECT_EQ(Replacement("nvitop", "gpu_memory_used_MiB / gpu_memory_total_MiB"),
            "(gpu_memory_used_bytes / 1048576) / (gpu_memory_total_bytes / 1048576)");
}

// Within one aggregation they meet before it leaves the labels of its `by` only.
TEST(CheckQuery, DropsLabelsBeforeAnOperatorInsideOfAnAggregation) {
  EXPECT_EQ(
      Replacement("node", "sum(node_memory_MemFree_bytes / node_memory_MemTotal_bytes)"),
      "sum(sum without (system_memory_state) (system_memory_usage_bytes{system_memory_state=\"free\"}) / "
      "system_memory_limit_bytes)");
  EXPECT_EQ(Replacement("node", "avg(node_memory_MemFree_bytes / 1024)"),
            "avg(system_memory_usage_bytes{system_memory_state=\"free\"} / 1024)");
}

TEST(CheckQuery, NamesWhatIsAddedUp) {
  const Checked checked = Check("all-smi", "all_smi_cpu_temperature_celsius - all_smi_memory_utilization");
  EXPECT_EQ(checked.verdict, Verdict::kChanges);
  EXPECT_TRUE(std::ranges::any_of(checked.notes, [](const std::string& note) {
    return note.find("are added up") != std::string::npos;
  })) << checked.replacement;
}

// Else the parentheses would be those of the modifier.
TEST(CheckQuery, KeepsAGroupModifierApartFromItsOperand) {
  EXPECT_EQ(Replacement("nvitop", "kube_x * on (pod) group_left # all\n gpu_utilization_Percentage"),
            "kube_x * on (pod) group_left() # all\n (sum without (gpu_task_type) "
            "(gpu_utilization_ratio) * 100)");
  EXPECT_EQ(Replacement("nvitop", "kube_x * on (pod) group_left (a) gpu_utilization_Percentage")
                .find("group_left()"),
            std::string::npos);
}

TEST(CheckQuery, RenamesALabelByTheMetricsThatItIsAbout) {
  EXPECT_EQ(Replacement("node",
                        "sum by (device) (rate(node_network_receive_bytes_total[5m])) or "
                        "sum by (device) (rate(node_disk_read_bytes_total[5m]))"),
            "sum by (network_interface_name) "
            "(rate(system_network_io_bytes_total{network_io_direction=\"receive\"}[5m])) or "
            "sum by (system_device) (rate(system_disk_io_bytes_total{disk_io_direction=\"read\"}[5m]))");
  EXPECT_EQ(Replacement("node", "sum by (device) (kube_x) > 0 and on () sum by (device) (node_network_up)"),
            "sum by (device) (kube_x) > 0 and on () sum by (network_interface_name) (host_network_up)");
  const Checked both = Check("node", "sum by (device) (kube_x * node_network_up)");
  ASSERT_FALSE(both.notes.empty());
  EXPECT_NE(both.notes.back().find("label_replace"), std::string::npos);
}

TEST(CheckQuery, WarnsOfJoinsWithOtherMetrics) {
  const Checked checked = Check("node", "node_filesystem_avail_bytes * on (device) group_left kube_x");
  EXPECT_EQ(checked.verdict, Verdict::kChanges);
  ASSERT_FALSE(checked.notes.empty());
  EXPECT_NE(checked.notes.back().find("label_replace"), std::string::npos);
}

TEST(CheckQuery, LeavesOthersAlone) {
  EXPECT_EQ(Check("dcgm", "up{job=\"x\"}").verdict, Verdict::kOther);
  EXPECT_EQ(Check("dcgm", "1 + 1").verdict, Verdict::kOther);
  EXPECT_EQ(Check("openjarvis", "vllm:num_requests_running").verdict, Verdict::kOther);
}

TEST(CheckQuery, NamesWhatItCannotRead) {
  EXPECT_EQ(Check("dcgm", "DCGM_FI_DEV_$field").verdict, Verdict::kUnread);
  EXPECT_EQ(Check("dcgm", "$query").verdict, Verdict::kUnread);
  EXPECT_EQ(Check("dcgm", "sum(").verdict, Verdict::kUnread);
  EXPECT_EQ(Check("dcgm", "{__name__=~\"DCGM_.*\"}").verdict, Verdict::kUnread);
}

TEST(CheckQuery, ServesTheNamesOfOtherProjects) {
  EXPECT_EQ(Check("l9gpu", "sum(gpu_ecc_errors{k8s_cluster_name=\"a\"})").needs.Names(),
            std::vector<std::string>({"l9gpu"}));
  EXPECT_EQ(Check("l9gpu", "gpu_utilization_ratio").needs.Names(), std::vector<std::string>({"l9gpu"}));
  EXPECT_EQ(Check("zernel", "zernel_gpu_memory_used_bytes").verdict, Verdict::kKeeps);
  EXPECT_EQ(Check("zernel", "zernel_gpu_memory_free_bytes").verdict, Verdict::kMissing);
  EXPECT_EQ(Check("otel", "hw_power_watts").needs.Names(), std::vector<std::string>({"otel_hw"}));
  EXPECT_EQ(Check("otel", "rate(gen_ai_server_request_duration_seconds_bucket[5m])").needs.Names(),
            std::vector<std::string>({"otel_genai"}));
  EXPECT_EQ(Check("otel", "system_uptime_seconds").verdict, Verdict::kKeeps);
  EXPECT_EQ(Replacement("otel", "system_memory_usage_bytes{state=\"used\"}"),
            "system_memory_usage_bytes{system_memory_state=\"used\"}");
}

// What the tables name is in the catalogue, and what they call missing is not served.
TEST(Tables, AreTrue) {
  for (const Exporter& exporter : AllExporters()) {
    std::set<std::string> keys;
    for (const TableRow& row : exporter.rows) {
      const std::string where = std::string(exporter.name) + " " + std::string(row.name);
      if (row.native.empty()) {
        EXPECT_FALSE(row.note.empty()) << where;
        const bool pattern = row.name.find('*') != row.name.npos;
        EXPECT_TRUE(pattern || FindSuccessor(exporter, row.name).kind == Successor::kMissing) << where;
        continue;
      }
      const MetricDesc* native = FindMetric(row.native);
      ASSERT_NE(native, nullptr) << where << ": " << row.native;
      EXPECT_EQ(FindSuccessor(exporter, row.name).kind, Successor::kMapped) << where;
      for (const Pair& pair : PairsOf(row.where)) {
        const bool of_series = std::ranges::find(native->keys, pair.key) != native->keys.end();
        EXPECT_TRUE(of_series) << where << ": " << pair.key << " is no attribute of " << row.native;
      }
    }
    EXPECT_FALSE(TableOf(exporter).empty()) << exporter.name;
  }
}

// The names that a set has are not called missing by a table of the same exporter.
TEST(Tables, PatternsDoNotHideServedNames) {
  for (const Exporter& exporter : AllExporters()) {
    for (const std::string_view names : exporter.namings) {
      const MetricNaming* naming = FindNaming(names);
      ASSERT_NE(naming, nullptr) << names;
      for (const NamingRow& row : naming->rows) {
        if (row.name.empty()) continue;
        const std::string name = PrometheusNameOf(*naming, row);
        EXPECT_EQ(FindSuccessor(exporter, name).kind, Successor::kServed) << name;
      }
    }
  }
}

}  // namespace
}  // namespace gpulens::migrate
