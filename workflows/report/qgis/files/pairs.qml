<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.0" styleCategories="Symbology|Labeling" labelsEnabled="0">
  <renderer-v2 type="categorizedSymbol" attr="state">
    <categories>
      <category value="done" symbol="0" label="done" render="true" />
      <category value="failed" symbol="1" label="failed" render="true" />
      <category value="pending" symbol="2" label="pending" render="true" />
    </categories>
    <symbols>
      <symbol type="fill" name="0" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="90,140,110,25" />
            <Option type="QString" name="outline_color" value="60,93,73,255" />
            <Option type="QString" name="outline_width" value="0.5" />
            <Option type="QString" name="joinstyle" value="miter" />
          </Option>
        </layer>
      </symbol>
      <symbol type="fill" name="1" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="200,40,40,25" />
            <Option type="QString" name="outline_color" value="133,26,26,255" />
            <Option type="QString" name="outline_width" value="0.5" />
            <Option type="QString" name="joinstyle" value="miter" />
          </Option>
        </layer>
      </symbol>
      <symbol type="fill" name="2" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="130,130,130,25" />
            <Option type="QString" name="outline_color" value="86,86,86,255" />
            <Option type="QString" name="outline_width" value="0.5" />
            <Option type="QString" name="joinstyle" value="miter" />
          </Option>
        </layer>
      </symbol>
    </symbols>
  </renderer-v2>
</qgis>
