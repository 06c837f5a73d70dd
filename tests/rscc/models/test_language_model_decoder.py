import json

import pytest
import torch
from decoding import check_steps, teacher_forced_mean
from tiny_instructblip import PROMPTS, llama_like_tokenizer, tiny_instructblip

from rscc.errors import ConfigInvalid, ModelFolderInvalid
from rscc.models.language_model_decoder import PROMPT_TOKENS, LanguageModelDecoder
from rscc.models.shared.generation import beam_search, greedy_search
from rscc.models.shared.search_rules import ForbiddenWords, SearchRules
from rscc.text.tokenizer import TokenizerVocabulary, load_vocabulary
from rscc.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def decoder() -> LanguageModelDecoder:
    rest = tiny_instructblip().rest
    return LanguageModelDecoder(language_model=rest.language_model, vocabulary=rest.vocabulary).eval()


@pytest.fixture(scope="module")
def vocabulary() -> TokenizerVocabulary:
    return TokenizerVocabulary.of_transformers(llama_like_tokenizer())


def visual(count: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 4, 20, generator=torch.Generator().manual_seed(seed))


def rules(decoder: LanguageModelDecoder) -> SearchRules:
    words = decoder.vocabulary
    return SearchRules(words.bos, words.eos, 8, (words.pad, words.bos, words.unk))


# The decoder


def test_a_prefix_is_images_then_prompt_then_zeros(decoder) -> None:
    memory = decoder.prefix(visual(), PROMPTS)
    lengths = [4 + len(decoder.vocabulary.prompt(prompt, 99)) for prompt in PROMPTS]
    assert memory.shape == (2, max(lengths), 20)
    assert torch.equal(memory[:, :4], visual())
    for row, length in enumerate(lengths):
        assert (memory[row, :length] != 0).any(-1).all()
        assert (memory[row, length:] == 0).all()
    begin = decoder.language_model.get_input_embeddings().weight[decoder.vocabulary.bos]
    assert torch.equal(memory[:, 4], begin.expand(2, -1))


def test_long_prompts_lose_their_end(decoder) -> None:
    memory = decoder.prefix(visual(1), ["house road " * 200])
    assert memory.shape[1] == 4 + PROMPT_TOKENS


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


@pytest.mark.parametrize("where", ["end", "front", "between"])
def test_padding_in_the_memory_changes_nothing(where, decoder) -> None:
    memory = decoder.prefix(visual(1), PROMPTS[:1])
    gap = torch.zeros(1, 3, 20)
    pieces = {"end": [memory, gap], "front": [gap, memory], "between": [memory[:, :4], gap, memory[:, 4:]]}
    tokens = torch.tensor([decoder.vocabulary.encode("a house appears", 20)])
    padded = torch.cat(pieces[where], dim=1)
    with torch.no_grad():
        torch.testing.assert_close(decoder(padded, tokens).logits, decoder(memory, tokens).logits)
    plain, other = (greedy_search(decoder, m, rules(decoder))[0] for m in (memory, padded))
    assert plain.ids == other.ids
    assert plain.mean_log_probability == pytest.approx(other.mean_log_probability, abs=1e-5)


def test_steps_equal_teacher_forcing_also_of_selected_rows(decoder) -> None:
    memory = decoder.prefix(visual(), PROMPTS)
    tokens = torch.randint(4, len(decoder.vocabulary), (2, 7), generator=torch.Generator().manual_seed(3))
    tokens[:, 0] = decoder.vocabulary.bos
    check_steps(decoder, memory, tokens, rows=torch.tensor([1, 0]))


def test_a_beam_of_one_is_greedy_and_batches_are_single_samples(decoder) -> None:
    memory = decoder.prefix(visual(), PROMPTS)
    greedy = greedy_search(decoder, memory, rules(decoder))
    narrow = beam_search(decoder, memory, rules(decoder), beams=1)
    wide = beam_search(decoder, memory, rules(decoder), beams=3)
    for row, prompt in enumerate(PROMPTS):
        assert narrow[row][0].ids == greedy[row].ids
        alone = decoder.prefix(visual()[row : row + 1], [prompt])
        assert greedy_search(decoder, alone, rules(decoder))[0].ids == greedy[row].ids
        single = beam_search(decoder, alone, rules(decoder), beams=3)[0]
        assert [one.ids for one in single] == [one.ids for one in wide[row]]
        for one, other in zip(single, wide[row], strict=True):
            assert one.mean_log_probability == pytest.approx(other.mean_log_probability, abs=1e-5)


def test_a_beams_score_is_that_of_teacher_forcing(decoder) -> None:
    memory = decoder.prefix(visual(1), PROMPTS[:1])
    for one in beam_search(decoder, memory, rules(decoder), beams=3)[0]:
        mean = teacher_forced_mean(decoder, decoder.vocabulary, memory, one.ids, rules(decoder).max_words)
        assert one.mean_log_probability == pytest.approx(mean, abs=1e-4)


# The vocabulary


def test_captions_survive_a_round_trip(vocabulary) -> None:
    ids = vocabulary.encode("There is no difference, a House appears!", 40)
    assert ids[0] == vocabulary.bos == 1
    assert ids[-1] == vocabulary.eos == 2
    assert len(ids) > 2 + 3  # pieces, more of them than some words
    assert vocabulary.decode([*ids, 9, 9]) == "there is no difference a house appears"
    assert vocabulary.decode([*ids[:-1], vocabulary.pad]) == "there is no difference a house appears"
    assert vocabulary.encode(["a", "house"], 40) == vocabulary.encode("a house", 40)


def test_long_captions_keep_their_end_and_ids_outside_are_refused(vocabulary) -> None:
    ids = vocabulary.encode("there is no difference", 4)
    assert (len(ids), ids[-1]) == (4, vocabulary.eos)
    for bad in (-1, len(vocabulary)):
        with pytest.raises(IndexError, match="outside"):
            vocabulary.decode([bad])


def test_a_vocabulary_file_brings_the_whole_tokenizer(vocabulary, tmp_path) -> None:
    vocabulary.save(tmp_path / "vocabulary.json")
    loaded = load_vocabulary(tmp_path / "vocabulary.json")
    assert loaded == vocabulary
    assert loaded.words == vocabulary.words
    caption = "villas are built near the road"
    assert loaded.encode(caption, 40) == vocabulary.encode(caption, 40)
    words = Vocabulary.build(["a house"], min_count=1)
    words.save(tmp_path / "vocabulary.json")
    assert load_vocabulary(tmp_path / "vocabulary.json") == words


@pytest.mark.parametrize("role", ["tokenizer", "pad", "bos"])
def test_a_damaged_vocabulary_is_refused(role, vocabulary, tmp_path) -> None:
    file = tmp_path / "vocabulary.json"
    vocabulary.save(file)
    content = json.loads(file.read_text())
    damage = {"tokenizer": {"version": "?"}, "pad": 10**6, "bos": None}
    file.write_text(json.dumps({**content, role: damage[role]}))
    with pytest.raises(ModelFolderInvalid, match=r"vocabulary\.json"):
        load_vocabulary(file)
    file.unlink()
    with pytest.raises(ModelFolderInvalid, match=r"vocabulary\.json"):
        load_vocabulary(file)


def test_a_tokenizer_without_padding_pads_with_unknown() -> None:
    tokenizer = llama_like_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    vocabulary = TokenizerVocabulary.of_transformers(tokenizer)
    assert vocabulary.pad == vocabulary.unk
    tokenizer.bos_token = None
    with pytest.raises(ConfigInvalid, match="no bos token"):
        TokenizerVocabulary.of_transformers(tokenizer)


def test_forbidden_beginnings_are_whole_in_pieces(vocabulary) -> None:
    forbidden = ForbiddenWords.of_words([["there", "is", "no"]], vocabulary)
    ids = tuple(vocabulary.encode("there is no", 99)[1:-1])
    assert len(ids) > 3
    logits = torch.zeros(2, len(vocabulary))
    forbidden.apply(logits, [ids[:-1], ids[:-2]])
    assert logits[0, ids[-1]] == float("-inf")
    assert torch.isfinite(logits[1]).all()
