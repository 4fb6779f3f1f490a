"""Runs the examples, each with 1, 2 and 4 processes where they train."""

import os
import pty
import random
import re
import socket
import subprocess
import unittest

from ranks import DEADLINE_S, ENVIRONMENT, run_ranks, run_world

SIZES = (1, 2, 4)  # of worlds


def on_terminal(command):
    """The output of a program on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = b""
    with open(ours, "rb", buffering=0) as terminal:
        try:
            while part := terminal.read(4096):
                text += part
        except OSError:  # How Linux says that nobody holds the other side any more.
            pass
    process.wait(DEADLINE_S)
    return text.decode()


class ExamplesCase(unittest.TestCase):
    """`build` and `folder` are a derived class's: where they are built, and where they may write."""

    def say(self, name, size, *arguments):
        """The output of rank 0 in an example's world; the others print nothing, and all end well."""
        results = run_world(os.path.join(self.build, name), size, *arguments)
        for rank, (status, out, err) in enumerate(results):
            self.assertEqual((status, err), (0, ""), "%s, rank %d of %d\n%s" % (name, rank, size, out))
            if rank != 0:
                self.assertEqual(out, "")
        return results[0][1]

    def assert_ends(self, status, sentence, name, *arguments):
        (ended, _, err), = run_ranks(os.path.join(self.build, name), [{}], *arguments)
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
            self.assertIn("continues after epoch 1 and 10 steps\n", train("stopped", "3"))
            with open(self.path("whole.%d.pt" % size), "rb") as one, open(self.path("stopped.%d.pt" % size), "rb") as two:
                self.assertEqual(one.read(), two.read())

    def test_cifar10_without_augmentation_is_one_training_for_all_numbers_of_ranks(self):
        self.assert_ends(0, "", "cifar10", "--data", self.path("one cifar"), "--make", "40")
        losses = {}
        for size in SIZES:
            said = self.say("cifar10", size, "--data", self.path("one cifar"), "--batch", "20", "--epochs", "2", "--augment", "0")
            losses[size] = [float(loss) for loss in re.findall(r"epoch \d: loss (\S+), ", said)]
            self.assertEqual(len(losses[size]), 2)
            for loss, of_one in zip(losses[size], losses[1]):
                self.assertAlmostEqual(loss, of_one, delta=1e-3 * of_one)

    def test_the_loss_is_printed_each_log_steps_and_rewritten_on_a_terminal(self):
        self.assert_ends(0, "", "cifar10", "--data", self.path("logged"), "--make", "16")
        arguments = ["--data", self.path("logged"), "--batch", "16", "--epochs", "1", "--augment", "0"]
        shown = r"epoch 1, step (\d) of 5: loss \d\.\d+"
        for size in (1, 2):
            said = self.say("cifar10", size, *arguments, "--log-steps", "2")
            self.assertEqual(re.findall("(?m)^" + shown + "$", said), ["2", "4"])
        self.assertNotIn("step", self.say("cifar10", 1, *arguments, "--log-steps", "0"))
        said = on_terminal([os.path.join(self.build, "cifar10"), *arguments, "--log-steps", "2"])
        self.assertEqual(re.findall("\r" + shown + "\x1b\\[K", said), ["2", "4"])
        self.assertRegex(said, "\r\x1b\\[Kepoch 1: loss [^\r\n]+\r\n$")

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
        ranks = run_world("/bin/sh", 2, "-c", 'exec "$0" --data "$1" --batch 2 --checkpoint "$2.$RANK"',
                           os.path.join(self.build, "cifar10"), self.path("seen"), self.path("seen.pt"))
        self.assertIn(self.path("seen.pt.1") + ": No such file or directory", "".join(err for _, _, err in ranks))

    def test_cifar10_refuses_ranks_without_an_image(self):
        self.assert_ends(0, "", "cifar10", "--data", self.path("few"), "--make", "1")
        self.assertIn((1, "", "5 images are too few for 6 ranks\n"),
                      run_world(os.path.join(self.build, "cifar10"), 6, "--data", self.path("few"), "--batch", "6"))

    def test_reviews_are_classified_and_padding_biases_the_accuracy_of_the_article(self):
        # 30 of 300 reviews are for evaluation, in shares of 8, 8, 7 and 7, which padding makes 32.
        self.assert_ends(0, "", "reviews", "--data", self.path("reviews.csv"), "--make", "300")
        for model in ("linear", "transformer"):
            for size in SIZES:
                epochs = re.findall(r"epoch \d: loss (\S+), accuracy (\S+) of 30 reviews, f1 \S+; with a padded sampler (\S+)\n",
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
                (header + "a,so so\n", 1, ": row 1 has the sentiment 'so so', expected positive or 1, or negative or 0\n"),
                (header + "a,2\n", 1, ": row 1 has the sentiment '2', expected positive or 1, or negative or 0\n"),
                ("\ufeff" + header + "fine,1\n" * 5 + "bad,0\n" * 5, 0, ""),
                ("text,sentiment\na,positive\n", 1,
                 ": has no column 'review', but text, sentiment: --text and --label say which to read\n"),
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

    def make_hotels(self):
        """A file as ChnSentiCorp_htl_all.csv is: a byte-order mark, `label,review`, 0 or 1, Chinese without spaces. Good and bad
        reviews differ in one character of a clause, so that clauses as words tell nothing."""
        path = self.path("ChnSentiCorp_htl_all.csv")
        draw = random.Random(7)
        letters = "酒店房间服务早餐位置前台环境价格交通设施大堂电梯空调床单"
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write("\ufefflabel,review\n")
            for _ in range(300):
                label = draw.randrange(2)
                clause = "".join(draw.choices(letters, k=12))
                at = draw.randrange(12)
                file.write('%d,"%s%s%s，还可以。"\n' % (label, clause[:at], "差好"[label], clause[at:]))
            file.write("1,\n")  # to be dropped
        return path

    def test_reviews_reads_the_hotels_of_the_article_and_learns_from_single_characters(self):
        path = self.make_hotels()
        self.assert_ends(1, path + ": has no column 'sentiment', but label, review: --text and --label say which to read\n",
                         "reviews", "--data", path)
        said = self.say("reviews", 2, "--data", path, "--text", "review", "--label", "label", "--epochs", "6")
        accuracy, f1 = map(float, re.findall(r"accuracy (\S+) of 30 reviews, f1 (\S+);", said)[-1])
        self.assertGreater(accuracy, 0.9)
        self.assertGreater(f1, 0.9)

    def test_reviews_keeps_three_checkpoints_and_the_best_and_a_resumed_training_has_the_same_bits(self):
        self.assert_ends(0, "", "reviews", "--data", self.path("kept.csv"), "--make", "200")
        for size in SIZES:
            def train(name, epochs):
                return self.say("reviews", size, "--data", self.path("kept.csv"), "--model", "transformer", "--epochs", epochs,
                                "--exact", "1", "--log-steps", "0", "--checkpoint", self.path("%s.%d" % (name, size)))
            f1 = [float(text) for text in re.findall(r", f1 (\S+);", train("all", "5"))]
            self.assertEqual(len(f1), 5)
            train("part", "2")
            self.assertTrue(train("part", "5").startswith("continues after epoch 2\nepoch 3: "))
            kept = ("", ".1", ".2", ".best")
            self.assertEqual(sorted(name for name in os.listdir(self.folder) if name.startswith("all.%d" % size)),
                             ["all.%d%s" % (size, end) for end in kept])
            contents = []
            for end in kept:
                with open(self.path("all.%d%s" % (size, end)), "rb") as one, open(self.path("part.%d%s" % (size, end)), "rb") as two:
                    contents.append(one.read())
                    self.assertEqual(contents[-1], two.read(), "%d ranks, %s" % (size, end))
            best = f1.index(max(f1))
            if best >= 2:
                self.assertEqual(contents[3], contents[4 - best])

    def test_nodes_lists_each_rank_with_its_place(self):
        host = socket.gethostname()
        said = self.say("nodes", 4)
        self.assertEqual(said, "".join("rank %d of 4: local rank %d on %s\n" % (rank, rank, host) for rank in range(4)))

    def test_a_tensor_is_passed_from_rank_to_rank(self):
        for size in SIZES:
            self.assertEqual(self.say("point_to_point", size),
                             "passed on %d times, the sum is %d\n" % (size - 1, size * (size + 1) // 2))

    def test_reviews_refuses_ranks_with_different_numbers_of_batches(self):
        self.assert_ends(0, "", "reviews", "--data", self.path("unequal.csv"), "--make", "40")
        # Each of two ranks has 18 of the 36 reviews for training: five batches of four, three of six.
        ranks = run_world("/bin/sh", 2, "-c", 'exec "$0" --data "$1" --batch $((4 + 2 * RANK))',
                           os.path.join(self.build, "reviews"), self.path("unequal.csv"))
        self.assertIn("rank 1 has 3 batches an epoch, rank 0 has 5; expected one file and one --batch on all ranks",
                      "".join(err for _, _, err in ranks))

    def test_the_tutorial_starts_its_own_ranks_and_all_is_as_it_says(self):
        for size in SIZES:
            (status, out, err), = run_ranks(os.path.join(self.build, "tutorial"), [{}], "--ranks", str(size), "--file",
                                       self.path("tutorial.pt"))
            self.assertEqual((status, err), (0, ""), out)
            self.assertNotRegex(out, "DIFFERENT|SOMETHING|MISSED")
            self.assertEqual(re.findall(r"^(\w+):", out, re.MULTILINE),
                             ["basic", "checkpoint", "parts", "skewed"] + ["skewed"] * (size > 1))
            if size > 1:
                self.assertIn("do not wait as this one does: %d " % (size - 1), out, "the rank that is late is named")

    def test_the_running_means_of_broadcast_buffers(self):
        for size in SIZES:
            (status, out, err), = run_ranks(os.path.join(self.build, "broadcast_buffers"), [{}], "--ranks", str(size),
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
