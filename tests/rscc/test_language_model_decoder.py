import json

import pytest
import torch
from tiny_instructblip import llama_like_tokenizer, tiny_instructblip

from rscc.errors import ConfigInvalid, ModelFolderInvalid
from rscc.models.generation import ForbiddenWords, beam_search, greedy_search
from rscc.models.language_model_decoder import PROMPT_TOKENS, LanguageModelDecoder
from rscc.tokenizer_vocabulary import TokenizerVocabulary, load_vocabulary
from rscc.vocabulary import Vocabulary

PROMPTS = ["Describe the change.", "Describe the change between the two images. Entities: a house, the road."]


@pytest.fixture(scope="module")
def decoder() -> LanguageModelDecoder:
    rest = tiny_instructblip().rest
    return LanguageModelDecoder(language_model=rest.language_model, vocabulary=rest.vocabulary).eval()


@pytest.fixture(scope="module")
def vocabulary() -> TokenizerVocabulary:
    return TokenizerVocabulary.of_transformers(llama_like_tokenizer())


def visual(count: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 4, 20, generator=torch.Generator().manual_seed(seed))


def settings(decoder: LanguageModelDecoder) -> dict:
    words = decoder.vocabulary
    return {
        **{"bos": words.bos, "eos": words.eos, "max_words": 8},
        "banned": (words.pad, words.bos, words.unk),
    }


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
        wanted = model(inputs_embeds=inputs).logits[:, memory.shape[1] - 1 :, : len(decoder.vocabulary)]
    assert output.logits.shape == (1, tokens.shape[1] - 1, len(decoder.vocabulary))
    assert output.hidden.shape == output.words.shape == output.attended.shape == (1, tokens.shape[1] - 1, 20)
    torch.testing.assert_close(output.logits, wanted)


@pytest.mark.parametrize("where", ["end", "front", "between"])
def test_padding_in_the_memory_changes_nothing(where, decoder) -> None:
    memory = decoder.prefix(visual(1), PROMPTS[:1])
    gap = torch.zeros(1, 3, 20)
    pieces = {"end": [memory, gap], "front": [gap, memory], "between": [memory[:, :4], gap, memory[:, 4:]]}
    tokens = torch.tensor([decoder.vocabulary.encode("a house appears", 20)])
    padded = torch.cat(pieces[where], dim=1)
    with torch.no_grad():
        torch.testing.assert_close(decoder(padded, tokens).logits, decoder(memory, tokens).logits)
    plain, other = (greedy_search(decoder, m, **settings(decoder))[0] for m in (memory, padded))
    assert plain.ids == other.ids
    assert plain.mean_log_probability == pytest.approx(other.mean_log_probability, abs=1e-5)


def test_step_by_step_equals_teacher_forcing(decoder) -> None:
    memory = decoder.prefix(visual(), PROMPTS)
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(4, len(decoder.vocabulary), (2, 7), generator=generator)
    tokens[:, 0] = decoder.vocabulary.bos
    with torch.no_grad():
        forced = decoder(memory, tokens).logits
        cache = decoder.start(memory)
        for place in range(tokens.shape[1]):
            torch.testing.assert_close(decoder.step(tokens[:, place], cache), forced[:, place])


def test_selected_rows_go_on_as_their_parents(decoder) -> None:
    memory = decoder.prefix(visual(), PROMPTS)
    tokens = torch.tensor([[decoder.vocabulary.bos, 7, 9], [decoder.vocabulary.bos, 8, 10]])
    rows = torch.tensor([1, 0])
    with torch.no_grad():
        forced = decoder(memory, tokens).logits
        for swap_after in (1, 2):
            cache = decoder.start(memory)
            for place in range(swap_after):
                decoder.step(tokens[:, place], cache)
            cache.select(rows)
            swapped = decoder.step(tokens[rows, swap_after], cache)
            torch.testing.assert_close(swapped, forced[rows, swap_after])
        cache = decoder.start(memory)
        cache.select(rows)
        torch.testing.assert_close(decoder.step(tokens[rows, 0], cache), forced[rows, 0])


def test_a_beam_of_one_is_greedy_and_batches_are_single_samples(decoder) -> None:
    memory = decoder.prefix(visual(), PROMPTS)
    greedy = greedy_search(decoder, memory, **settings(decoder))
    narrow = beam_search(decoder, memory, beams=1, **settings(decoder))
    wide = beam_search(decoder, memory, beams=3, **settings(decoder))
    for row, prompt in enumerate(PROMPTS):
        assert narrow[row][0].ids == greedy[row].ids
        alone = decoder.prefix(visual()[row : row + 1], [prompt])
        assert greedy_search(decoder, alone, **settings(decoder))[0].ids == greedy[row].ids
        single = beam_search(decoder, alone, beams=3, **settings(decoder))[0]
        assert [one.ids for one in single] == [one.ids for one in wide[row]]
        for one, other in zip(single, wide[row], strict=True):
            assert one.mean_log_probability == pytest.approx(other.mean_log_probability, abs=1e-5)


def test_a_beams_score_is_that_of_teacher_forcing(decoder) -> None:
    memory = decoder.prefix(visual(1), PROMPTS[:1])
    words = decoder.vocabulary
    for found in beam_search(decoder, memory, beams=3, **settings(decoder))[0]:
        full = len(found.ids) == settings(decoder)["max_words"]
        tokens = torch.tensor([[words.bos, *found.ids, words.eos]])
        with torch.no_grad():
            logits = decoder(memory, tokens[:, :-1]).logits[0]
        logits[:, [words.pad, words.bos, words.unk]] = float("-inf")
        logits[0, words.eos] = float("-inf")
        each = logits.log_softmax(-1).gather(1, tokens[0, 1:, None]).squeeze(1)
        wanted = each[:-1].mean() if full else each.mean()
        assert found.mean_log_probability == pytest.approx(wanted.item(), abs=1e-4)


# The vocabulary


def test_captions_survive_a_round_trip(vocabulary) -> None:
    ids = vocabulary.encode("There is no difference, a House appears!", 40)
    assert ids[0] == vocabulary.bos == 1
    assert ids[-1] == vocabulary.eos == 2
    assert len(ids) > 2 + 3  # pieces, more of them than some words
    assert vocabulary.decode([*ids, 9, 9]) == "there is no difference a house appears"
    assert vocabulary.decode([*ids[:-1], vocabulary.pad]) == "there is no difference a house appears"
    assert vocabulary.encode(["a", "house"], 40) == vocabulary.encode("a house", 40)


def test_long_captions_keep_their_end(vocabulary) -> None:
    ids = vocabulary.encode("there is no difference", 4)
    assert len(ids) == 4
    assert ids[-1] == vocabulary.eos
    with pytest.raises(ConfigInvalid, match="max_length is 1"):
        vocabulary.encode("a", 1)


def test_ids_outside_are_refused(vocabulary) -> None:
    for bad in (-1, len(vocabulary)):
        with pytest.raises(IndexError, match="outside"):
            vocabulary.decode([bad])


def test_a_vocabulary_file_brings_the_whole_tokenizer(vocabulary, tmp_path) -> None:
    vocabulary.save(tmp_path / "vocabulary.json")
    loaded = load_vocabulary(tmp_path / "vocabulary.json")
    assert loaded == vocabulary
    assert loaded.words == vocabulary.words
    assert loaded.encode("villas are built near the road", 40) == vocabulary.encode(
        "villas are built near the road", 40
    )


def test_a_vocabulary_of_words_is_still_read(tmp_path) -> None:
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
