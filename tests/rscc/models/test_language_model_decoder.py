import json

import pytest
import torch
from foundation_models import PROMPTS, llama_like_tokenizer, tiny_instructblip
from tiny_models import check_steps

from rscc.errors import ModelFolderInvalid
from rscc.models.language_model_decoder import LanguageModelDecoder
from rscc.models.shared.generation import SearchRules, beam_search, greedy_search
from rscc.text.tokenizer import TokenizerVocabulary, load_vocabulary

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def decoder() -> LanguageModelDecoder:
    rest = tiny_instructblip().rest
    return LanguageModelDecoder(language_model=rest.language_model, vocabulary=rest.vocabulary).eval()


@pytest.fixture(scope="module")
def vocabulary() -> TokenizerVocabulary:
    return TokenizerVocabulary.of_transformers(llama_like_tokenizer())


def visual(count: int = 2) -> torch.Tensor:
    return torch.randn(count, 4, 20, generator=torch.Generator().manual_seed(0))


def test_logits_are_the_language_models_own(decoder) -> None:
    """Without padding: one plain forward pass over prefix and caption, in which the begin token is not."""
    memory = decoder.prefix(visual(1), PROMPTS[:1])
    tokens = torch.tensor([decoder.vocabulary.encode("a house appears near the road", 20)])
    model = decoder.language_model
    with torch.no_grad():
        output = decoder(memory, tokens[:, :-1])
        inputs = torch.cat([memory, model.get_input_embeddings()(tokens[:, 1:-1])], dim=1)
        expected = model(inputs_embeds=inputs).logits[:, memory.shape[1] - 1 :, : len(decoder.vocabulary)]
    assert output.logits.shape == (1, tokens.shape[1] - 1, len(decoder.vocabulary))
    assert output.hidden.shape == output.words.shape == output.attended.shape == (1, tokens.shape[1] - 1, 20)
    torch.testing.assert_close(output.logits, expected)


def test_steps_equal_teacher_forcing_also_of_selected_rows(decoder) -> None:
    memory = decoder.prefix(visual(), PROMPTS)
    tokens = torch.randint(4, len(decoder.vocabulary), (2, 7), generator=torch.Generator().manual_seed(3))
    tokens[:, 0] = decoder.vocabulary.bos
    check_steps(decoder, memory, tokens, rows=torch.tensor([1, 0]))


def test_a_beam_of_one_is_greedy_and_batches_are_single_samples(decoder) -> None:
    memory, words = decoder.prefix(visual(), PROMPTS), decoder.vocabulary
    rules = SearchRules(words.bos, words.eos, 8, (words.pad, words.bos, words.unk))
    greedy = greedy_search(decoder, memory, rules)
    narrow, wide = (beam_search(decoder, memory, rules, beams=beams) for beams in (1, 3))
    for row, prompt in enumerate(PROMPTS):
        assert narrow[row][0].ids == greedy[row].ids
        alone = decoder.prefix(visual()[row : row + 1], [prompt])
        assert greedy_search(decoder, alone, rules)[0].ids == greedy[row].ids
        single = beam_search(decoder, alone, rules, beams=3)[0]
        assert [one.ids for one in single] == [one.ids for one in wide[row]]
        for one, other in zip(single, wide[row], strict=True):
            assert one.mean_log_probability == pytest.approx(other.mean_log_probability, abs=1e-5)


@pytest.mark.parametrize("role", ["tokenizer", "pad", "bos"])
def test_a_damaged_vocabulary_is_refused(role, vocabulary, tmp_path) -> None:
    file = tmp_path / "vocabulary.json"
    vocabulary.save(file)
    content = json.loads(file.read_text())
    damage = {"tokenizer": {"version": "?"}, "pad": 10**6, "bos": None}
    file.write_text(json.dumps({**content, role: damage[role]}))
    with pytest.raises(ModelFolderInvalid):
        load_vocabulary(file)
    file.unlink()
    with pytest.raises(ModelFolderInvalid):
        load_vocabulary(file)
