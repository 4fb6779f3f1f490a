"""What the examples do, each with 1, 2 and 4 processes where they train."""

import os
import re
import unittest

from ranks import play, play_world

SIZES = (1, 2, 4)  # of worlds


class ExamplesCase(unittest.TestCase):
    """`build` and `folder` are a derived class's: where they are built, and where they may write."""

    def say(self, name, size, *arguments):
        """What rank 0 of a world of an example says; the others say nothing, and all end well."""
        results = play_world(os.path.join(self.build, name), size, *arguments)
        for rank, (status, out, err) in enumerate(results):
            self.assertEqual((status, err), (0, ""), "%s, rank %d of %d\n%s" % (name, rank, size, out))
            if rank != 0:
                self.assertEqual(out, "")
        return results[0][1]

    def assert_ends(self, status, sentence, name, *arguments):
        (ended, _, err), = play(os.path.join(self.build, name), [{}], *arguments)
        self.assertEqual((ended, err), (status, sentence))

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def test_cifar10_learns_and_a_resumed_training_has_the_bits_of_one_that_was_never_stopped(self):
        self.assert_ends(0, "", "cifar10", "--data", self.path("cifar"), "--make", "40")
        for size in SIZES:
            def train(name, epochs):
                return self.say("cifar10", size, "--data", self.path("cifar"), "--batch", "20", "--epochs", epochs, "--exact", "1",
                                "--checkpoint", self.path("%s.%d.pt" % (name, size)))
            whole = re.findall(r"epoch (\d): loss (\S+), accuracy (\S+), \d+ images/s\n", train("whole", "3"))
            self.assertEqual([epoch for epoch, _, _ in whole], ["1", "2", "3"])
            self.assertLess(float(whole[-1][1]), float(whole[0][1]) / 2)
            self.assertGreater(float(whole[-1][2]), 0.9)
            train("stopped", "1")
            self.assertIn("goes on after epoch 1 and 10 steps\n", train("stopped", "3"))
            with open(self.path("whole.%d.pt" % size), "rb") as one, open(self.path("stopped.%d.pt" % size), "rb") as two:
                self.assertEqual(one.read(), two.read())

    def test_cifar10_names_a_file_that_is_none(self):
        folder = self.path("no cifar")
        self.assert_ends(1, folder + "/data_batch_1.bin: cannot be read\n", "cifar10", "--data", folder)
        self.assert_ends(0, "", "cifar10", "--data", folder, "--make", "1")
        for content, sentence in ((b"", "has 0 bytes, expected records of 3073"),
                                  (bytes(3072), "has 3072 bytes, expected records of 3073"),
                                  (b"\x0a" + bytes(3072), "has the label 10, expected 0 to 9")):
            with open(os.path.join(folder, "test_batch.bin"), "wb") as file:
                file.write(content)
            self.assert_ends(1, folder + "/test_batch.bin: " + sentence + "\n", "cifar10", "--data", folder)

    def test_cifar10_says_that_a_rank_does_not_see_the_checkpoint(self):
        self.assert_ends(0, "", "cifar10", "--data", self.path("seen"), "--make", "1")
        with open(self.path("seen.pt.0"), "wb"):
            pass
        ranks = play_world("/bin/sh", 2, "-c", 'exec "$0" --data "$1" --batch 2 --checkpoint "$2.$RANK"',
                           os.path.join(self.build, "cifar10"), self.path("seen"), self.path("seen.pt"))
        self.assertIn(self.path("seen.pt.1") + ": No such file or directory", "".join(err for _, _, err in ranks))

    def test_cifar10_refuses_ranks_without_an_image(self):
        self.assert_ends(0, "", "cifar10", "--data", self.path("few"), "--make", "1")
        self.assertIn((1, "", "5 images are too few for 6 ranks\n"),
                      play_world(os.path.join(self.build, "cifar10"), 6, "--data", self.path("few"), "--batch", "6"))

    def test_reviews_are_classified_and_padding_biases_the_accuracy_of_the_article(self):
        # Of 300 reviews 30 are for evaluation, in shares of 8, 8, 7 and 7, which padding makes 32.
        self.assert_ends(0, "", "reviews", "--data", self.path("reviews.csv"), "--make", "300")
        for model in ("linear", "transformer"):
            for size in SIZES:
                epochs = re.findall(r"epoch \d: loss (\S+), accuracy (\S+) of 30 reviews; with a padded sampler (\S+)\n",
                                    self.say("reviews", size, "--data", self.path("reviews.csv"), "--model", model))
                self.assertEqual(len(epochs), 3)
                self.assertLess(float(epochs[-1][0]), float(epochs[0][0]))
                self.assertGreater(float(epochs[-1][1]), 0.6)
                for _, distinct, of_article in epochs:
                    counted_twice = 30 * (float(of_article) - float(distinct))
                    self.assertIn(round(counted_twice, 3), (0, 1, 2) if size == 4 else (0,))

    def test_reviews_reads_quoted_fields_and_names_the_line_that_is_wrong(self):
        path = self.path("few.csv")
        header = "review,sentiment\n"
        for text, status, sentence in (
                (header + '"good, ""very""\r\ngood",positive\r\n,negative\nbad,\n\nbad,negative' + "\nfine,positive" * 9,
                 0, ""),
                (header + "a,b,c\n", 1, ":2: has 3 fields, expected 2 as in the header\n"),
                (header + '"a\n\nb', 1, ":2: opens a quote that is never closed\n"),
                (header + '"a"b,positive\n', 1, ":2: has text behind a quoted field\n"),
                (header + "a,so so\n", 1, ": row 1 has the sentiment 'so so', expected positive or negative\n"),
                ("text,sentiment\na,positive\n", 1, ": has no column 'review'\n"),
                (header + "fine,positive\n" * 9, 1,
                 ": has 9 reviews, expected at least 10, of which one is for evaluation\n"),
                (header + ",positive\n", 1, ": has no complete row\n")):
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            self.assert_ends(status, path + sentence if sentence else "", "reviews", "--data", path, "--epochs", "0")
        self.assert_ends(1, self.folder + ": cannot be read\n", "reviews", "--data", self.folder)
        self.assert_ends(1, "--batch is 0, expected at least 1\n", "reviews", "--data", path, "--batch", "0")
        self.assert_ends(1, "--model is 'rnn', expected linear or transformer\n", "reviews", "--data",
                         self.path("few.csv"), "--model", "rnn")

    def test_reviews_refuses_ranks_with_different_numbers_of_batches(self):
        self.assert_ends(0, "", "reviews", "--data", self.path("unequal.csv"), "--make", "40")
        # Of 36 reviews for training each of two ranks has 18: five batches of four, three of six.
        ranks = play_world("/bin/sh", 2, "-c", 'exec "$0" --data "$1" --batch $((4 + 2 * RANK))',
                           os.path.join(self.build, "reviews"), self.path("unequal.csv"))
        self.assertIn("rank 1 has 3 batches an epoch, rank 0 has 5; expected one file and one --batch on all ranks",
                      "".join(err for _, _, err in ranks))

    def test_the_tutorial_starts_its_own_ranks_and_all_is_as_it_says(self):
        for size in SIZES:
            (status, out, err), = play(os.path.join(self.build, "tutorial"), [{}], "--ranks", str(size), "--file",
                                       self.path("tutorial.pt"))
            self.assertEqual((status, err), (0, ""), out)
            self.assertNotRegex(out, "DIFFERENT|SOMETHING|MISSED")
            self.assertEqual(re.findall(r"^(\w+):", out, re.MULTILINE),
                             ["basic", "checkpoint", "parts", "skewed"] + ["skewed"] * (size > 1))
            if size > 1:
                self.assertIn("do not wait as this one does: %d " % (size - 1), out, "the rank that is late is named")

    def test_the_running_means_of_broadcast_buffers(self):
        for size in SIZES:
            (status, out, err), = play(os.path.join(self.build, "broadcast_buffers"), [{}], "--ranks", str(size),
                                       "--steps", "5")
            self.assertEqual((status, err), (0, ""), out)
            # Momentum 0.1; rank r's batch mean is r. With rank 0's buffers at the start of each forward rank r has one
            # step's worth.
            kept = [1 - 0.9 ** step for step in range(1, 6)]
            first = [[0.1 * rank for rank in range(size)]] * 5
            tables = [re.findall(r"^ +\d((?: +\d\.\d{4})+)$", table, re.MULTILINE) for table in out.split("\n\n")[:-1]]
            own = [[rank * share for rank in range(size)] for share in kept]
            of_all = [[(size - 1) / 2 * share] * size for share in kept]
            self.assertEqual(len(tables), 4)
            for table, expected in zip(tables, (first, own, of_all, first)):
                self.assertEqual(len(table), 5)
                for row, means in zip(table, expected):
                    self.assertEqual(len(row.split()), size)
                    for text, mean in zip(row.split(), means):
                        self.assertAlmostEqual(float(text), mean, delta=1e-4)
