# SPDX-License-Identifier: BSD-3-Clause
# weft explain, in this process; test/p2p compares its answers with what the engine does.
import json


def test_explain(weft, no_driver):
    facts = json.loads(weft("explain", "send", "--kind", "host", "--bytes", "1M", "--json").out)
    assert facts
    assert "eager" in weft("explain", "send", "--kind", "host").out
    assert weft("explain", "send", "--bytes", "many").status == 2
    assert weft("explain", "nonsense").status == 2
