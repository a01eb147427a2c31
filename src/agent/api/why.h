// /api/why: what holds each GPU, engine and the host back now (docs/why.md).
#pragma once

#include <string>

#include "agent/api/api.h"
#include "agent/api/history_pages.h"
#include "why/why.h"

namespace gpulens {

void AddWhyPage(Api& api, const NodeReadings& readings);

// The page about a report.
std::string WhyJson(const WhyReport& report, const WhyQuestion& question);

}  // namespace gpulens
