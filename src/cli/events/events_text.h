// Incidents as text for people and programs. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "store/incident_store.h"

namespace gpulens {

std::string IncidentTable(const std::vector<Incident>& incidents);
// One object per line; readings, where they are there, as "readings_before".
std::string IncidentJson(const std::vector<Incident>& incidents);
// RFC 4180 with a head line; what a spreadsheet would take for a formula is quoted.
std::string IncidentCsv(const std::vector<Incident>& incidents);
// The last values before an incident, for the table: "power.draw 612.3 W · temperature 71 Cel".
std::string ReadingsSummary(const Incident& incident);

}  // namespace gpulens
