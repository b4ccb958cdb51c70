#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Generates reports of football matches and their summaries, for a model that learns to summarize.

    match_reports.py NUMBER FOLDER [--seed N]

Writes NUMBER reports into FOLDER/reports.txt and the summary of each into FOLDER/summaries.txt. A report
lists goals and other events in order. The summary names the winner, the final score and the player with
the most goals, so a model must count goals and omit other events.
"""
import argparse
import collections
import pathlib
import random

CITIES = ["Aachen", "Bergen", "Cork", "Dresden", "Essen", "Fulda", "Ghent", "Halle", "Izmir", "Jena",
          "Kiel", "Lyon", "Malmo", "Nantes", "Oslo", "Porto"]
NAMES = ["Abel", "Bauer", "Cruz", "Dahl", "Evers", "Falk", "Graf", "Holm", "Ito", "Jansen", "Kraus", "Lang",
         "Meyer", "Nowak", "Olsen", "Peters", "Quinn", "Rossi", "Silva", "Tran", "Unger", "Vogel", "Weber",
         "Young"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
GOALS = ["{player} scored for {team} in minute {minute}.",
         "In minute {minute}, {player} put the ball into the net for {team}.",
         "{team} scored through {player} after {minute} minutes."]
EVENTS = ["{player} of {team} saw a yellow card in minute {minute}.",
          "A shot of {player} hit the post in minute {minute}.",
          "{team} had a corner in minute {minute}.", "It rained from minute {minute} on."]


def report(draw):
    """A report and its summary."""
    teams = draw.sample(CITIES, 2)
    names = draw.sample(NAMES, 6)
    squads = {teams[0]: names[:3], teams[1]: names[3:]}
    day = draw.choice(DAYS)
    spectators = draw.randrange(1, 60) * 1000
    sentences = [f"{teams[0]} played against {teams[1]} on {day} before {spectators} spectators."]
    score, scorers = collections.Counter(), collections.Counter()
    for minute in sorted(draw.sample(range(1, 91), draw.randrange(3, 9))):
        team = draw.choice(teams)
        player = draw.choice(squads[team])
        is_goal = draw.random() < 0.6
        sentences.append(draw.choice(GOALS if is_goal else EVENTS)
                         .format(player=player, team=team, minute=minute))
        if is_goal:
            score[team] += 1
            scorers[player] += 1
    first, second = sorted(teams, key=lambda team: -score[team])
    result = f"{score[first]} - {score[second]}"
    summary = (f"{first} and {second} drew {result} on {day}" if score[first] == score[second]
               else f"{first} beat {second} {result} on {day}")
    ranking = scorers.most_common(2)
    if ranking and ranking[0][1] > 1 and (len(ranking) == 1 or ranking[1][1] < ranking[0][1]):
        summary += f", with {ranking[0][1]} goals of {ranking[0][0]}"
    return " ".join(sentences), summary + "."


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("number", type=int)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    options.folder.mkdir(parents=True, exist_ok=True)
    with (open(options.folder / "reports.txt", "w", encoding="utf8") as reports,
          open(options.folder / "summaries.txt", "w", encoding="utf8") as summaries):
        for _ in range(options.number):
            text, summary = report(draw)
            print(text, file=reports)
            print(summary, file=summaries)


if __name__ == "__main__":
    main()
