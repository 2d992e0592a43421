"""Does `compile` keep its word: results, errors, recompilation, logs, settings, whatever machine it runs on?"""
