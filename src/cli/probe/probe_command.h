// `gpulens probe` and `gpulens probe-host`: their output. AddProbe and AddProbeHost of cli/help/help.h add
// the commands. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "plugins/collectors/probes/probe_protocol.h"

namespace gpulens {

// What people read of `probe list` and `probe status`, in lines of at most `width` columns where words allow.
std::string ProbeListText(const probes::ProbeReply& reply, size_t width);
std::string ProbeStatusText(const probes::HostStatus& status, size_t width);
// One object: schemas gpulens.probe_list/1 and gpulens.probe_status/1.
std::string ProbeListJson(const probes::ProbeReply& reply);
std::string ProbeStatusJson(const probes::HostStatus& status);

// "single_step: the kernel would … (row)".
std::string ProbeRefusalText(std::string_view reason, std::string_view sentence, std::string_view row);

// The duration below which a share of the timed calls is: `quantile` of 0 … 1, inside the bucket by its
// bounds. Seconds; 0: none was timed.
double ProbeQuantile(const job_page::HistogramCopy& histogram, double quantile) noexcept;

}  // namespace gpulens
