<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.0" styleCategories="Symbology|Labeling|MapTips|Temporal" labelsEnabled="0">
  <temporal enabled="1" mode="2" startField="start" endField="end" durationField="" durationUnit="days" fixedDuration="0" accumulate="0" startExpression="" endExpression="" limitMode="0">
    <fixedRange>
      <start></start>
      <end></end>
    </fixedRange>
  </temporal>
  <mapTip>&lt;b&gt;[% to_string("event_id") %]&lt;/b&gt;</mapTip>
  <renderer-v2 type="categorizedSymbol" attr="state">
    <categories>
      <category value="candidate" symbol="0" label="candidate" render="true" />
      <category value="confirmed" symbol="1" label="confirmed" render="true" />
      <category value="ended" symbol="2" label="ended" render="true" />
      <category value="dropped" symbol="3" label="dropped" render="false" />
    </categories>
    <symbols>
      <symbol type="fill" name="0" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="255,210,63,30" />
            <Option type="QString" name="outline_color" value="255,210,63,255" />
            <Option type="QString" name="outline_style" value="dash" />
            <Option type="QString" name="outline_width" value="0.6" />
            <Option type="QString" name="joinstyle" value="miter" />
          </Option>
        </layer>
      </symbol>
      <symbol type="fill" name="1" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="255,127,80,60" />
            <Option type="QString" name="outline_color" value="214,69,20,255" />
            <Option type="QString" name="outline_width" value="0.6" />
            <Option type="QString" name="joinstyle" value="miter" />
          </Option>
        </layer>
      </symbol>
      <symbol type="fill" name="2" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="120,160,220,40" />
            <Option type="QString" name="outline_color" value="60,100,180,255" />
            <Option type="QString" name="outline_width" value="0.6" />
            <Option type="QString" name="joinstyle" value="miter" />
          </Option>
        </layer>
      </symbol>
      <symbol type="fill" name="3" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="0,0,0,0" />
            <Option type="QString" name="outline_color" value="150,150,150,180" />
            <Option type="QString" name="outline_style" value="dot" />
            <Option type="QString" name="outline_width" value="0.6" />
            <Option type="QString" name="joinstyle" value="miter" />
          </Option>
        </layer>
      </symbol>
    </symbols>
  </renderer-v2>
</qgis>
