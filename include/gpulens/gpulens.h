// Includes all headers of the SDK except gpulens/c.h.
#pragma once

#include <gpulens/efficiency.h>
#include <gpulens/energy.h>
#include <gpulens/energy_own.h>
#include <gpulens/experiment.h>
#include <gpulens/export.h>
#include <gpulens/inference.h>
#include <gpulens/instruments.h>
#include <gpulens/job.h>
#include <gpulens/registry.h>
#include <gpulens/resident_kernel.h>
#include <gpulens/ring_kernel.h>
#include <gpulens/stats.h>
#include <gpulens/status.h>
#include <gpulens/training.h>
