import unittest

import page

RESULT = {"scenario": "a.b", "result": "pass", "judged": 6, "seconds": 2.0, "refused": {"more bits": 2, "other": 1},
          "required_shares": [{"label": "world 3", "share": 0.25}],
          "groups": [{"cases": "1", "labels": ["world 3"]}, {"cases": "2-4", "labels": ["drawn"]},
                     {"cases": "5,7", "labels": ["drawn", "world 3"]}]}


def run(**changes):
    return {"seed": "7", "cores": 2, "seconds": 2.0, "results": [{**RESULT, **changes}]}


class Page(unittest.TestCase):
    def test_counts_drawn_cases_alone(self):
        self.assertIn("| world 3: 25.0 %, 40.0 % |", page.page([run()]))

    def test_shows_the_label_that_is_nearest_to_its_share(self):
        shares = [{"label": "drawn", "share": 0.5}, *RESULT["required_shares"]]
        self.assertIn("| world 3: 25.0 %, 40.0 % |", page.page([run(required_shares=shares)]))
        self.assertIn("| more bits |  |", page.page([run(required_shares=[])]))

    def test_shows_cases_a_second_and_the_first_reason(self):
        self.assertIn("| `a.b` | 6 | 3 | 33.3 % | more bits | world 3", page.page([run()]))

    def test_adds_runs_of_several_seeds(self):
        text = page.page([run(), {**run(judged=4, groups=[{"cases": "1-4", "labels": ["drawn"]}]), "seed": "8"}])
        self.assertIn("seeds 7, 8", text)
        self.assertIn("| `a.b` | 10 | 2 | 37.5 % | more bits | world 3: 25.0 %, 22.2 % |", text)

    def test_refuses_a_run_that_failed(self):
        with self.assertRaisesRegex(ValueError, "a.b"):
            page.page([run(), run(result="fail")])


if __name__ == "__main__":
    unittest.main()
