"""The rows of the seeds that are about the SDK: each has its check in one of the files below, in a test with the row's name, or
names the tests that are its check. The table is next to the checkout; without it only that no row is missing is not shown.
"""
import csv
import os
import pathlib
import re
import unittest

import test_seed_rows_collector
import test_seed_rows_l9gpu
import test_seed_rows_openjarvis
import test_seed_rows_pydotcompute

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = pathlib.Path(os.environ.get("GPULENS_SHARED", ROOT.parent / "shared"), "seed_rows.tsv")
FIELDS = "test_compat_openjarvis.py test_records; test_seed_signatures.py test_of_openjarvis"
SENT = "otlp_training.py test_names_units_and_values"
CHECKED_WITH_THE_PROGRAM = "test_experiments_cli.py test_ze_"

# A row's tests: "FILE NAME", several with ; between. Those of simulated_*.py run on simulated GPUs, by test_energy.py and
# test_energy_trees.py; otlp_*.py and torch_*.py with in_venv.py --otlp and --torch; test_telemetry.py is one of tests/e2e.
ELSEWHERE = {
    **{f"l9-{row}": SENT for row in range(173, 184)},
    "l9-176": SENT + "; torch_training.py test_the_norm_is_that_of_clip_grad_norm",
    "l9-180": SENT + "; test_seed_rows_l9gpu.py test_l9_220_a_loader_of_a_fifth_of_a_second",
    "l9-214": "otlp_training.py test_verbatim; test_guide.py test_a_training_monitor",
    "l9-215": "otlp_training.py test_verbatim",
    "l9-216": "otlp_training.py test_it_sends_every_thirty_seconds; otlp_training.py test_it_sends_at_the_end_of_the_interpreter",
    "l9-222": "otlp_training.py test_it_sends_at_the_end_of_the_interpreter",
    **{f"oj-{row:03}": FIELDS for row in (1, 3, 4, 22, 24, 25, 26, 36, 45, 49, 55, 56)},
    "oj-002": "test_compat_aggregates.py test_of_two_models_and_engines",
    "oj-005": "test_compat_aggregates.py test_what_was_not_measured_dilutes_nothing",
    "oj-006": "test_compat_aggregates.py test_ratios_are_of_sums",
    "oj-008": "test_compat_telemetry.py test_as_documented; test_seed_signatures.py test_of_openjarvis",
    "oj-009": "test_compat_aggregates.py test_batches",
    "oj-013": "test_compat_telemetry.py test_every_field_comes_back_by_its_name",
    "oj-014": "test_compat_telemetry.py test_every_field_comes_back_by_its_name; test_compat_openjarvis.py test_the_record_of_a_call",
    "oj-016": "test_compat_openjarvis.py test_real_names_find_the_right_board; test_compat_openjarvis.py test_no_guess",
    "oj-017": "test_energy.py test_documented_signatures",
    "oj-018": "test_energy.py test_monitors_without_a_gpu; simulated_gpus.py test_a_gpu_monitor",
    "oj-019": "simulated_board.py test_a_second_is_300_joules; test_guide.py test_joules_of_a_block",
    "oj-020": "test_energy.py test_monitors_without_a_gpu",
    "oj-021": "simulated_gpus.py test_a_gpu_monitor",
    "oj-027": "test_compat_session.py test_a_page_with_labels",
    "oj-028": "test_compat_session.py test_errors_are_zeros",
    "oj-029": "test_compat_openjarvis.py test_abstract; test_energy_source.py test_a_derived_monitor",
    "oj-030": "test_energy.py test_monitors_without_a_gpu",
    "oj-031": "simulated_gpus.py test_monitors_of_vendors",
    "oj-032": "simulated_gpus.py test_monitors_of_vendors; simulated_power.py test_polling_is_what_openjarvis_calls_it",
    "oj-034": "simulated_board.py test_a_snapshot_is_not_zero",
    "oj-035": "simulated_board.py test_a_snapshot_is_not_zero",
    "oj-037": "simulated_machine.py test_components_of_a_gpu_machine",
    "oj-038": "test_compat_openjarvis.py test_vendors",
    "oj-039": "test_seed_signatures.py test_of_openjarvis",
    "oj-040": "simulated_machine.py test_the_order_of_preference; test_energy_trees.py test_all; test_energy_trees.py test_amd",
    "oj-041": "simulated_machine.py test_the_order_of_preference; test_energy_trees.py test_nvidia_and_processors",
    "oj-042": "simulated_machine.py test_the_order_of_preference; test_energy_trees.py test_nothing",
    "oj-043": "simulated_machine.py test_wraps_and_sockets",
    "oj-044": "test_energy_source.py test_an_accumulator_times_its_resolution; sources_test.cc ReadsAccumulatorAndPower",
    "oj-046": "test_compat_openjarvis.py test_without_a_monitor",
    "oj-047": "test_compat_openjarvis.py test_with_a_monitor",
    "oj-048": "test_compat_openjarvis.py test_an_exception_leaves_what_was_recorded",
    "oj-050": "test_compat_openjarvis.py test_the_metric_decides",
    "oj-051": "test_compat_openjarvis.py test_known_runs",
    "oj-052": "test_compat_openjarvis.py test_known_runs; test_compat_openjarvis.py test_never",
    "oj-053": "test_compat_openjarvis.py test_result_and_reset",
    "oj-054": "test_compat_openjarvis.py test_result_and_reset",
    "oj-057": "test_seed_signatures.py test_of_openjarvis; test_compat_session.py test_without_a_monitor_nothing_runs",
    "oj-059": "test_compat_session.py test_the_newest_are_kept",
    "oj-061": "test_compat_engines.py test_instrumented_generate",
    "oj-062": "test_compat_engines.py test_events_have_one_subscriber_each",
    "oj-063": "test_compat_engines.py test_failed",
    "oj-064": "test_compat_engines.py test_a_slow_consumer",
    "oj-065": "test_compat_openjarvis.py test_known_numbers",
    "oj-066": "test_compat_openjarvis.py test_known_numbers",
    "oj-067": "test_compat_openjarvis.py test_known_numbers",
    "oj-068": "test_compat_session.py test_a_phase; test_compat_session.py test_no_tokens",
    "oj-069": "test_compat_session.py test_split",
    "oj-070": "test_energy_source.py test_twenty_milliseconds_at_300_watts",
    "oj-071": "test_energy_source.py test_eight_requests_share_what_was_drawn; simulated_gpus.py test_openjarvis_engines_share_it_too",
    "oj-072": "test_compat_openjarvis.py test_known_numbers; test_compat_openjarvis.py test_of_nothing",
    "oj-073": "test_compat_openjarvis.py test_mfu_is_a_ratio",
    "oj-074": "test_compat_openjarvis.py test_of_models_by_their_names; test_compat_openjarvis.py test_no_guess",
    "oj-075": "test_telemetry.py test_totals_are_those_of_sql",
    "rk-001": "test_compat_pydotcompute_snippets.py Snippets; test_seed_snippets.py test_every_snippet_is_run_by_a_test",
    "rk-031": "test_compat_pydotcompute_snippets.py test_multiple_kernels",
    "rk-033": "test_compat_pydotcompute_snippets.py test_enable_telemetry; test_guide.py test_a_ring_kernel",
    "rk-034": "test_compat_pydotcompute_snippets.py test_multiple_kernels",
    "rk-035": "test_compat_pydotcompute_snippets.py test_error_tracking",
    "rk-037": "test_compat_pydotcompute_snippets.py test_reset_counters",
    "rk-041": "ring_bench.cc BENCHMARK; budgets.py ring_off",
    "rk-042": "collector_test.cc IsExactUnderManyThreads; test_ring_parts.py test_exact_under_threads",
    "rk-044": "test_compat_pydotcompute.py test_without_nvml",
    "ze-030": CHECKED_WITH_THE_PROGRAM + "030_the_run_is_listed_as_done",
    "ze-031": CHECKED_WITH_THE_PROGRAM + "031_its_param_is_shown",
    "ze-032": CHECKED_WITH_THE_PROGRAM + "032_the_whole_history_in_order",
    "ze-033": CHECKED_WITH_THE_PROGRAM + "033_an_exception_is_a_failure_and_a_kill_a_crash",
    "ze-034": CHECKED_WITH_THE_PROGRAM + "034_the_package_is_an_installed_one",
}


def checked_here():
    found = set()
    for module in (test_seed_rows_collector, test_seed_rows_l9gpu, test_seed_rows_openjarvis, test_seed_rows_pydotcompute):
        for case in vars(module).values():
            if isinstance(case, type) and issubclass(case, unittest.TestCase) and case.__module__ == module.__name__:
                names = [name for name in dir(case) if name.startswith("test_")]
                found |= {"-".join(row) for name in names for row in re.findall(r"_(oj|rk|l9|ze)_(\d{3})", name)}
    return found


class Table(unittest.TestCase):
    def test_every_row_about_the_sdk_has_its_check(self):
        if not TABLE.exists():
            self.skipTest(f"captures not here: {TABLE}")
        with TABLE.open(encoding="utf-8") as file:
            rows = {row["id"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row["where"] == "sdk"}
        self.assertEqual(len(rows), 148)
        self.assertEqual(rows - checked_here() - set(ELSEWHERE), set(), "no check")
        self.assertEqual((checked_here() | set(ELSEWHERE)) - rows, set(), "no such row")
        self.assertEqual(checked_here() & set(ELSEWHERE), set(), "said twice")

    @unittest.skipUnless((ROOT / "src/sdk").exists(), "of a checkout")
    def test_the_named_checks_are_there(self):
        texts = {}
        for folder in ("python/tests", "tests/e2e", "src", "bench"):
            for path in (ROOT / folder).rglob("*.*"):
                if path.suffix in (".py", ".cc"):
                    texts.setdefault(path.name, []).append(path)
        for row, places in ELSEWHERE.items():
            for place in places.split("; "):
                file, name = place.split()
                found = [path for path in texts.get(file, []) if re.search(rf"\b{name}\b", path.read_text(encoding="utf-8"))]
                self.assertEqual(len(found), 1, f"{row}: {place}")


if __name__ == "__main__":
    unittest.main()
