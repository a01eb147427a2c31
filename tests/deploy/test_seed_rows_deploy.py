"""Every row of the seeds about deployment has its check."""
import csv
import pathlib
import re
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
TABLE = TESTS.parents[1] / "shared/seed_rows.tsv"
QUERIES = ("deploy/test_dashboards.py", "test_every_query_returns_data_within_its_range")

# Row: the file and the name of the test.
CHECKS = {
    "l9-017": ("deploy/test_chart.py", "test_no_gpu_is_requested"),
    "l9-191": ("deploy/test_dashboards.py", "test_foreign_dashboards_are_answered_as_listed"),
    "l9-197": ("deploy/test_chart.py", "test_l9_197_and_231_cluster_role"),
    "l9-213": ("deploy/test_chart.py", "test_l9_213_and_228_gateway"),
    "l9-223": ("deploy/test_chart.py", "test_l9_223_vendors"),
    "l9-224": ("deploy/test_chart.py", "test_l9_224_engines"),
    "l9-225": ("deploy/test_chart.py", "test_l9_226_and_225_price_and_health"),
    "l9-226": ("deploy/test_chart.py", "test_l9_226_and_225_price_and_health"),
    "l9-227": ("deploy/test_chart.py", "test_l9_227_price_from_the_instance"),
    "l9-228": ("deploy/test_chart.py", "test_l9_213_and_228_gateway"),
    "l9-229": ("deploy/test_chart.py", "test_l9_229_v1_is_not_doubled"),
    "l9-230": ("deploy/test_chart.py", "test_l9_230_slurm"),
    "l9-231": ("deploy/test_chart.py", "test_l9_197_and_231_cluster_role"),
    "l9-232": ("deploy/test_chart.py", "test_l9_232_the_seeds_values"),
    "zu-013": ("deploy/test_compose.py", "test_prometheus_scrapes_with_the_token"),
    "zu-014": ("deploy/test_compose.py", "test_nginx_hides_metrics"),
    "zu-015": ("deploy/test_compose.py", "test_prometheus_scrapes_with_the_token"),
    **{f"zu-{number:03}": QUERIES for number in (*range(18, 26), *range(27, 31))},
    "zu-026": ("deploy/test_dashboards.py", "test_a_cluster_s_first_tokens_are_compared_with_its_target"),
    "zu-040": ("deploy/test_dashboards.py", "test_variables_offer_what_there_is"),
    "zu-043": ("deploy/test_compose.py", "test_core_alone_needs_no_password"),
    "zu-044": ("deploy/test_compose.py", "test_documented_command"),
    "zu-045": ("deploy/test_compose.py", "test_nothing_but_nginx_is_published"),
    "zu-046": ("deploy/test_compose.py", "test_overlay_refuses_to_start_without_password"),
    "zu-047": ("deploy/test_compose.py", "test_bounds"),
    "zu-048": ("deploy/test_compose.py", "test_images_limits_provisioning"),
    "zu-049": ("deploy/test_compose.py", "test_nothing_but_nginx_is_published"),
}


class Table(unittest.TestCase):
    def test_every_row_about_deployment_has_its_check(self):
        if not TABLE.exists():
            self.skipTest(f"captures not here: {TABLE}")
        with TABLE.open() as file:
            rows = {row["id"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row["where"] == "later: deploy"}
        self.assertEqual(rows - set(CHECKS), set())
        for row, (file, test) in CHECKS.items():
            self.assertRegex((TESTS / file).read_text(), rf"def {re.escape(test)}\(", row)


if __name__ == "__main__":
    unittest.main()
